#!/bin/sh
# Pretends to encode a film: ./encode.sh FILE FRAMES. Says how far it is, and sets a result.
for frame in $(seq 1 "$2"); do
    echo "$1: frame $frame"
    echo "$frame/$2 frames" >> "$STAYER_REPORT"
    sleep 0.15
done
echo "{\"frames\": $2}" > "$STAYER_RESULT"
