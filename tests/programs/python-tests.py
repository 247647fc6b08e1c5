# Runs some of Python's own tests and tells what came of them: how many passed, and each that did not, or was skipped, by name.
# usage: python-tests.py MODULE [-i PATTERN]...
import subprocess, sys
import xml.etree.ElementTree as tree

module, *options = sys.argv[1:]
# With such a timeout of the whole, they give others ten times as long as they would: 100 s on loopback, 300 for what is short.
command = [sys.executable, "-m", "test", "--junit-xml", "results.xml", "--timeout", "12000", *options, module]
with open("log", "wb") as log:
    status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode
told, passed = [], 0
for case in tree.parse("results.xml").iter("testcase"):
    outcome = [child.tag for child in case if child.tag in ("skipped", "failure", "error")]
    if outcome:
        told.append(f"{case.get('name')}: {' '.join(outcome)}")
    else:
        passed += 1
print(*sorted(told), f"{module}: {passed} passed, status {status}", sep="\n")
if status != 0:
    sys.stderr.write(open("log", errors="replace").read())
