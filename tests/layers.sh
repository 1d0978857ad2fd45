#!/bin/sh
# The architecture: who may include whom. One line a rule; a new rule is a line here.
set -u
cd "$(dirname "$0")/.."
failed=0

# own folder, folders it may include besides its own, system headers that only it (or these) may include
layers='shared/core:
shared/store:shared/core
shared/wire:shared/core shared/store
shared/evidence:shared/core shared/store
kernels:shared/core
trainer:kernels shared/core shared/store shared/wire shared/evidence
tui:shared/core shared/store shared/wire shared/evidence'

# header regex : files that may include it
owners='curses\.h|ncurses.*|term\.h:^tui/screen\.c$
zmq\.h:^shared/wire/|^tui/main\.c$
sqlite3\.h:^shared/store/runfile
msgpack.*:^shared/store/pack\.[ch]$
json-c/.*:^shared/store/
cblas\.h|openblas.*:^kernels/cpu/
cuda.*|cublas.*|nvml\.h:^kernels/cuda/
xxhash\.h:^trainer/|^shared/store/
ini\.h:^tui/theme\.c$
zlib\.h:^trainer/dataset\.c$'

complain() {
    echo "layers: $1"
    failed=1
}

for file in $(find shared kernels trainer tui -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'); do
    for line in $(echo "$layers" | tr ' ' '+'); do
        folder=${line%%:*}
        case $file in "$folder"/*) allowed=" $folder $(echo "${line#*:}" | tr '+' ' ') " ;; esac
    done
    for include in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file"); do
        [ -e "$include" ] || complain "$file includes $include, which is no path from the root"
        case $include in
        shared/*) target=$(echo "$include" | cut -d/ -f1,2) ;;
        *) target=${include%%/*} ;;
        esac
        case $allowed in *" $target "*) ;; *) complain "$file may not include $include" ;; esac
        case $file:$include in kernels/cpu/*:kernels/cuda/* | kernels/cuda/*:kernels/cpu/*) complain "$file includes $include" ;; esac
        case $file:$include in trainer/*:kernels/cpu/* | trainer/*:kernels/cuda/*) complain "$file knows a backend: $include" ;; esac
    done
    for include in $(sed -n 's/^#include <\([^>]*\)>.*/\1/p' "$file"); do
        for owner in $owners; do
            header=${owner%%:*} where=${owner#*:}
            echo "$include" | grep -Eqx "$header" || continue
            echo "$file" | grep -Eq "$where" || complain "$file may not include <$include>"
        done
        case $file in shared/core/*)
            find /usr/include/"$include" /usr/include/*/"$include" /usr/lib/gcc/*/*/include/"$include" 2>/dev/null |
                xargs -r dpkg -S 2>/dev/null | grep -Eq '^(libc6-dev|libgcc-[0-9]+-dev|linux-libc-dev)' ||
                ! command -v dpkg >/dev/null || complain "$file: core is libc only, not <$include>"
            ;;
        esac
    done
    own=${file%.c}.h
    case $file in *.c)
        first=$(sed -n 's/^#include ["<]\([^">]*\)[">].*/\1/p' "$file" | head -n 1)
        [ ! -e "$own" ] || [ "$first" = "$own" ] || complain "$file: its own header comes first"
        ;;
    esac
done

# No cycles between modules: a header may not reach itself through others.
for header in $(find shared kernels trainer tui -name '*.h'); do
    sed -n 's/^#include "\([^"]*\.h\)".*/\1/p' "$header" | sed "s|^|$header |"
done | tsort >/dev/null || complain 'headers include each other'
exit $failed
