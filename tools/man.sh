#!/bin/sh
# Fills a manual page from what the program itself says. usage: tools/man.sh PROGRAM TEMPLATE
set -eu
help=$("$1" --help)
version=$("$1" --version | awk '{ print $NF }')

# Lines "  --name ARG   text" (options) or "  key   text" behind "Keys:" (keys), as tagged paragraphs.
entries() {
    echo "$help" | awk -v want="$1" '
        /^[A-Z][a-z ]*:$/ { keys = ($0 == "Keys:"); next }
        /^  [^ ]/ && (keys ? want == "keys" : want == "options" && /^  -/) {
            line = substr($0, 3)
            if (match(line, /   *[^ ]/) == 0) next
            tag = substr(line, 1, RSTART - 1); text = substr(line, RSTART + RLENGTH - 1)
            gsub(/-/, "\\-", tag); gsub(/\\/, "\\e", text)
            gsub(/←/, "\\[<-]", tag); gsub(/→/, "\\[->]", tag); gsub(/↑/, "\\[ua]", tag); gsub(/↓/, "\\[da]", tag)
            printf ".TP\n.B %s\n%s\n", tag, text
        }'
}

while IFS= read -r line; do
    case $line in
    @OPTIONS@) entries options ;;
    @KEYS@) entries keys ;;
    *) printf '%s\n' "$line" | sed "s|@VERSION@|$version|" ;;
    esac
done <"$2"
