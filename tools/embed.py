#!/usr/bin/env python3
"""Writes a C file that holds every file of a directory: embed.py DATA_DIR OUT.c OUT.d"""
import os
import sys


def escape(chunk):
    """bytes as the inside of a C string literal"""
    out = []
    for byte in chunk:
        if byte == 0x22 or byte == 0x5C:
            out.append("\\" + chr(byte))
        elif 32 <= byte < 127 and byte != 0x3F:  # a '?' could start a trigraph
            out.append(chr(byte))
        else:
            out.append("\\%03o" % byte)
    return "".join(out)


def main(root, out_c, out_d):
    paths, watched = [], []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - {"engines"})  # tools/embed_engines.c makes tables of those
        watched.append(folder)  # a folder is newer once a file was added to it
        paths += [os.path.join(folder, name) for name in files if not name.startswith(".")]
    entries = sorted((os.path.relpath(path, root), path) for path in paths)
    with open(out_c, "w", encoding="ascii") as out:
        out.write('#include "base/data.h"\n\nconst struct kva_data_file kva_data_files[] = {\n')
        for name, path in entries:
            with open(path, "rb") as file:
                content = file.read()
            out.write('    {"%s",\n' % escape(name.encode()))
            for start in range(0, max(len(content), 1), 96):
                out.write('     "%s"\n' % escape(content[start:start + 96]))
            out.write("     , %d},\n" % len(content))
        out.write("};\n\nconst size_t kva_n_data_files = %d;\n" % len(entries))
    with open(out_d, "w", encoding="utf-8") as out:
        inputs = watched + [path for _, path in entries]
        out.write("%s: %s\n" % (out_c, " ".join(path.replace(" ", "\\ ") for path in inputs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
