#!/bin/sh
# A simulated lldpctl: `lldpctl [-u SOCKET] -f json0` prints ../answers/lldp.json; everything else fails as the real
# one does. The socket is not looked at. Without an answer there is no lldpd.
PATH=/usr/bin:/bin
answers=${0%/*}/../answers
socket=/run/lldpd.socket
format=plain

usage() {
    cat >&2 <<'END'
Usage:   lldpctl [OPTIONS ...] [COMMAND ...]
Version: lldpd 1.0.16

-d          Enable more debugging information.
-u socket   Specify the Unix-domain socket used for communication with lldpd(8).
-f format   Choose output format (plain, keyvalue, json, json0, xml).

see manual page lldpcli(8) for more information
END
    exit 1
}

while getopts :u:f: option; do
    case $option in
        u) socket=$OPTARG ;;
        f) format=$OPTARG ;;
        :) echo "lldpctl: option requires an argument -- '$OPTARG'" >&2; usage ;;
        *) echo "lldpctl: invalid option -- '$OPTARG'" >&2; usage ;;
    esac
done
shift $((OPTIND - 1))
if [ $# -gt 0 ] || [ "$format" != json0 ]; then
    echo "lldpctl: this simulated lldpctl answers -f json0 without a command only" >&2
    exit 1
fi

answer=$answers/lldp.json
if [ -e "$answer.failed" ]; then
    { read -r status; cat >&2; exit "$status"; } <"$answer.failed"
fi
if [ ! -e "$answer" ]; then
    echo "2026-12-01T00:48:39 [WARN/control] unable to connect to socket $socket: No such file or directory" >&2
    exit 1
fi
exec cat "$answer"
