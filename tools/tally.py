#!/usr/bin/env python3
"""Counts tests: tally.py count NAME MESON_LOGS prints one line a test program; tally.py sum FILE adds such lines up."""
import glob
import json
import os
import re
import sys

CHECK = re.compile(r"(\d+)%: Checks: (\d+), Failures: (\d+), Errors: (\d+)")
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE)


def count(name, logs):
    programs = 0
    # the newest: a wrapped run has a log of its own name
    log = max(glob.glob(os.path.join(logs, "testlog*.json")), key=os.path.getmtime)
    with open(log, encoding="utf-8") as file:
        for line in file:
            test = json.loads(line)
            output = test.get("stdout", "")
            passed = failed = 0
            for _, checks, failures, errors in CHECK.findall(output):
                failed += int(failures) + int(errors)
                passed += int(checks) - int(failures) - int(errors)
            for good, bad in PLAIN.findall(output):
                passed += int(good)
                failed += int(bad)
            if passed + failed == 0:  # a test program that counts nothing has tested nothing
                failed = 1
            if failed == 0 and test["result"] != "OK":  # it crashed, timed out or leaked
                failed = 1
            programs += 1
            print("tests %s/%s %d %d" % (name, test["name"].replace(" ", ""), passed, failed))
    if programs == 0:
        print("check %s failed" % name)


def add(path):
    passed = failed = 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words[0] == "tests":
                good, bad = int(words[2]), int(words[3])
            else:
                good, bad = int(words[2] == "passed"), int(words[2] != "passed")
            passed += good
            failed += bad
            if bad:
                print("FAILED: %s" % words[1])
    print("%d passed, %d failed" % (passed, failed))
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(count(*sys.argv[2:]) if sys.argv[1] == "count" else add(sys.argv[2]))
