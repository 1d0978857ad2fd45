#!/bin/sh
# Runs every test and ends with "N passed, N failed". usage: tests/run.sh BUILD [name ...]
# A test program is one test per cmocka case; a script is one test: 0 passed, 77 skipped, else failed.
set -u
cd "$(dirname "$0")/.."
build=$1
shift
logs=$build/test-logs
rm -rf "$logs"
mkdir -p "$logs"
export BUILD="$build" NANTOP_RUNTIME_DIR LC_ALL=C.UTF-8 TZ=UTC
unset NO_COLOR OPENBLAS_NUM_THREADS OMP_NUM_THREADS
passed=0 failed=0 skipped=0

run_one() {
    name=$(basename "$1")
    log=$logs/$name.log
    scratch=$(mktemp -d /tmp/nantop-test.XXXXXX)
    NANTOP_RUNTIME_DIR=$scratch
    chmod 700 "$scratch"
    case $1 in
    *.py) set -- /usr/bin/python3 "$1" ;;
    esac
    timeout -k 5 300 "$@" >"$log" 2>&1 </dev/null
    code=$?
    rm -rf "$scratch"
    ok=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test(s).*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    bad=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test(s).*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    if [ "$ok$bad" = 00 ]; then
        case $code in 0) ok=1 ;; 77) skipped=$((skipped + 1)) ;; *) bad=1 ;; esac
    elif [ $code -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1 # it died after its cases: a leak, a sanitizer's report
    fi
    passed=$((passed + ok)) failed=$((failed + bad))
    if [ "$bad" -gt 0 ]; then
        echo "FAIL $name (exit $code)"
        tail -n 40 "$log"
    else
        echo "ok   $name ($ok)"
    fi
}

if [ $# -eq 0 ]; then
    for source in tests/test_*.c; do set -- "$@" "$build/$(basename "$source" .c)"; done
    for script in tests/layers.sh tests/test_*.sh tests/test_*.py; do [ -e "$script" ] && set -- "$@" "$script"; done
fi
for test; do run_one "$test"; done
if [ $skipped -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ] && [ $passed -gt 0 ]
