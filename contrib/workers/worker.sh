#!/bin/sh
# A worker in POSIX shell, with curl and jq, one task at a time:
#
#   STAYER_URL=https://tasks.example.org STAYER_TOKEN=stayer_… ./worker.sh QUEUE PROGRAM [ARGUMENT …]
#
# The program gets the task's parameters as JSON on its standard input, and STAYER_TASK and
# STAYER_ATTEMPT. What it prints is the task's log, what it writes to the file $STAYER_RESULT (JSON)
# the result, and its exit code says how it ended.
#
# At least once, with fenced writes: see docs/reference/worker-protocol.md. STAYER_LEASE is in
# seconds (60).
set -eu

queue=$1
shift
again='' # the program, quoted, to begin anew with
for word; do again="$again '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"; done
lease=${STAYER_LEASE:-60}
worker=$(uname -n | tr -c 'A-Za-z0-9.\n' -)-$$-$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
base=$STAYER_URL/v1/work/$worker
folder=$(mktemp -d)
number=0 id='' attempt=0 acknowledged=0 child='' cancelled='' draining='' stopping=''
trap 'stopping=1' TERM INT

# Seconds since boot, with those asleep: nobody sets this clock.
now() { cut -d. -f1 /proc/uptime; }

random() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# ask METHOD PATH TIMEOUT [CURL'S OPTIONS]: the answer is in $folder/answer, its status in $status,
# 000 if there was none.
ask() {
    method=$1 path=$2 timeout=$3
    shift 3
    status=$(curl --silent --show-error --max-time "$timeout" --request "$method" "$@" \
        --header "Authorization: Bearer $STAYER_TOKEN" \
        --output "$folder/answer" --write-out '%{http_code}' "$base$path" 2>"$folder/curl") || status=000
    case $status in
        409) if [ "$(jq -r .type "$folder/answer")" = urn:stayer:problem:lease-lost ]; then lost_lease; fi ;;
        401 | 403)
            jq -r .detail "$folder/answer" >&2
            lost_lease
            ;;
    esac
}

json() { ask "$1" "$2" "$3" --header 'Content-Type: application/json' --data-binary "$4"; }

# Say something of the task until it is answered, whatever the answer is. Beats go on.
tell() {
    while json POST "/tasks/$encoded/$1?attempt=$attempt" "$(left_of_lease)" "$2"; do
        case $status in 000 | 429 | 5*) ;; *) break ;; esac
        beat_if_due
        sleep 1
    done
}

# Nothing of the task's is to be left: its own session, whole.
kill_child() {
    [ -z "$child" ] || kill -s "$1" -- "-$child" 2>/dev/null || true
}

# Others may have what it ran: nothing is left, and nothing is said of it. Begin anew.
lost_lease() {
    kill_child KILL
    rm -rf "$folder"
    [ -z "$stopping" ] || exit 0
    eval "exec \"\$0\" \"\$queue\" $again"
}

new_beat() {
    number=$((number + 1)) sent=$(now) beat_due=$(($(now) + lease / 8))
    beat=$(jq -cn --arg nonce "$(random)" --arg queue "$queue" --arg node "$(uname -n)" --arg id "$id" \
        --argjson number $number --argjson lease "$lease" --argjson pid $$ \
        --argjson attempt "$attempt" --argjson acknowledged "$acknowledged" \
        '{protocol: 1, number: $number, nonce: $nonce, lease: $lease, queues: [$queue], slots: 1, node: $node,
          pid: $pid, version: "worker.sh", handles: {names: ["*"], plain: true},
          running: (if $id == "" then [] else [{id: $id, attempt: $attempt, acknowledged: $acknowledged}] end)}')
}

# For how long a request may take: never past the moment at which everything has to stop.
left_of_lease() {
    left=$((${stop_at:-$(($(now) + lease))} - $(now)))
    [ $left -lt $((lease / 4 + 1)) ] || left=$((lease / 4 + 1))
    [ $left -gt 0 ] || left=1
    echo $left
}

# A beat that was not answered is sent again as it was. The lease counts from before it was first sent.
beat_if_due() {
    if [ -z "${beat:-}" ]; then
        [ "$(now)" -ge "${beat_due:-0}" ] || return 0
        new_beat
    fi
    json POST /beat "$(left_of_lease)" "$beat"
    if [ "$status" = 200 ]; then
        beat='' stop_at=$((sent + lease - lease / 4 - 1)) # early: this shell counts in whole seconds
        if [ "$(jq '.drain' "$folder/answer")" = true ]; then draining=1; fi
        if [ -n "$id" ]; then
            if jq -e --arg id "$id" '.lost[] | select(.id == $id)' "$folder/answer" >/dev/null; then
                kill_child KILL
                id=''
            fi
            orders=$(jq -c --arg id "$id" '.orders[] | select(.id == $id) | .orders[]' "$folder/answer")
            if [ -n "$orders" ]; then
                acknowledged=$(printf '%s\n' "$orders" | jq -s 'map(.number) | max')
                case $orders in *'"cancel"'*) cancelled=1 ;; esac
            fi
        fi
    fi
    # A worker that hears nothing stops what it runs before the lease ends.
    if [ -n "${stop_at:-}" ] && [ "$(now)" -ge "$stop_at" ]; then lost_lease; fi
}

send_log() {
    size=$(wc -c <"$folder/log")
    [ "$size" -gt "$logged" ] || return 0
    tail -c "+$((logged + 1))" "$folder/log" | head -c 500000 >"$folder/piece"
    ask POST "/tasks/$encoded/log?attempt=$attempt&start=$logged" "$(left_of_lease)" \
        --header 'Content-Type: application/octet-stream' --data-binary "@$folder/piece"
    case $status in 2*) logged=$((logged + $(wc -c <"$folder/piece"))) ;; esac
}

run_task() {
    jq '.tasks[0]' "$folder/answer" >"$folder/task"
    id=$(jq -r .id "$folder/task") attempt=$(jq .attempt "$folder/task")
    encoded=$(jq -r '.id | @uri' "$folder/task") acknowledged=0 cancelled='' logged=0 killed_at=''
    tell start '{}'
    if [ "$status" != 200 ]; then
        id=''
        return
    fi
    rm -f "$folder/result" "$folder/code"
    jq .parameters "$folder/task" >"$folder/input"
    STAYER_TASK=$id STAYER_ATTEMPT=$attempt STAYER_RESULT=$folder/result \
        setsid sh -c '"$@"; echo $? >"$0"' "$folder/code" "$@" <"$folder/input" >"$folder/log" 2>&1 &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        beat_if_due
        [ -n "$id" ] || break
        if [ -n "$cancelled$stopping" ] && [ -z "$killed_at" ]; then
            kill_child TERM
            killed_at=$(now)
        elif [ -n "$killed_at" ] && [ "$(now)" -ge $((killed_at + 10)) ]; then
            kill_child KILL
        fi
        send_log
        sleep 0.5
    done
    kill_child KILL
    wait "$child" || true
    child=''
    [ -n "$id" ] || return 0
    while send_log && [ "$(wc -c <"$folder/log")" -gt "$logged" ] && [ "${status:-000}" != 409 ]; do beat_if_due; done
    code=$(cat "$folder/code" 2>/dev/null || echo 137)
    if [ -n "$cancelled" ]; then
        tell cancelled '{}'
    elif [ -n "$stopping" ]; then
        tell return '{"note": "the worker shuts down"}'
    elif [ "$code" = 0 ]; then
        tell complete "$(jq -c '{result: .}' "$folder/result" 2>/dev/null || echo '{}')"
        if [ "$status" = 413 ]; then tell fail '{"error": {"type": "TooLarge", "message": "its result is too large"}, "final": true}'; fi
    else
        last=$(tail -n 1 "$folder/log")
        tell fail "$(jq -cn --arg last "$last" --argjson code "$code" \
            '{error: {type: "ExitCode", message: "\($last) (exit code \($code))", exit_code: $code}}')"
    fi
    id=''
}

while [ -z "$stopping$draining" ]; do
    beat_if_due
    if [ -z "${stop_at:-}" ]; then
        sleep 1 # the first beat has not been answered yet
        continue
    fi
    key=${key:-$(random)} # a take that was not answered is sent again with its key
    json POST /take $((lease / 8 + 10)) "{\"key\": \"$key\", \"limit\": 1, \"wait\": $((lease / 8))}"
    case $status in
        200)
            key=''
            if [ "$(jq '.tasks | length' "$folder/answer")" != 0 ]; then run_task "$@"; fi
            ;;
        *) sleep 1 ;;
    esac
done
json POST /leave 5 "{\"number\": $number}"
rm -rf "$folder"
