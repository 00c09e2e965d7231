#!/usr/bin/env bash
# What three idle nodes cost: starts them with the settings that are given when none
# are, waits until they are quiet, and reads the processor time and the resident memory
# of each from /proc.
#
#   bench/idle.sh [SECONDS] [RANGES]     30 seconds, 64 ranges
#
# QUORATE is the binary; without it one is built. It needs Linux, and nothing listening
# at ports BASE to BASE+35 of 127.0.0.1; BASE is 21700. With PROFILE=FILE the processor
# profile of the first node is written there meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30} ranges=${2:-64} base=${BASE:-21700}
dir=$(mktemp -d)
pids=()
stop() {
	kill "${pids[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	[[ -n ${KEEP:-} ]] || rm -rf "$dir"
}
trap stop EXIT
binary=${QUORATE:-$dir/quorate}
[[ -n ${QUORATE:-} ]] || go build -o "$binary" ./cmd/quorate

for i in 1 2 3; do
	at=$((base + 10 * i))
	{
		echo "cluster: idle"
		echo "node: n$i"
		echo "data: $dir/n$i"
		echo "ranges: $ranges"
		echo "nodes:"
		for k in 1 2 3; do echo "  - {id: n$k, peer: '127.0.0.1:$((base + 10 * k + 3))'}"; done
		debug=""
		[[ -z ${PROFILE:-} ]] || debug=", debug: '127.0.0.1:$((at + 4))'"
		echo "listen: {http: '127.0.0.1:$((at + 1))', grpc: '127.0.0.1:$((at + 2))'$debug}"
		echo "tls: {mode: off}"
		echo "log: {level: warn}"
	} >"$dir/n$i.yaml"
	"$binary" serve --config "$dir/n$i.yaml" >"$dir/n$i.log" 2>&1 &
	pids+=($!)
done

for i in 1 2 3; do
	for _ in $(seq 300); do
		curl -fs -o /dev/null "http://127.0.0.1:$((base + 10 * i + 1))/readyz" && continue 2
		sleep 0.2
	done
	echo "n$i is not ready after a minute:" >&2
	cat "$dir/n$i.log" >&2
	exit 1
done
sleep 5

# ticks are what a process has used so far, user and system, in hundredths of a second.
ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{print $12 + $13}'; }
before=()
for p in "${pids[@]}"; do before+=("$(ticks "$p")"); done
began=$(date +%s%N)
if [[ -n ${PROFILE:-} ]]; then
	curl -fs -o "$PROFILE" "http://127.0.0.1:$((base + 14))/debug/pprof/profile?seconds=$seconds"
else
	sleep "$seconds"
fi
took=$(($(date +%s%N) - began))
hz=$(getconf CLK_TCK)
printf '%-5s %15s %8s %8s %9s\n' node '% of one core' 'RSS MiB' threads 'open files'
for i in 0 1 2; do
	p=${pids[$i]}
	used=$(($(ticks "$p") - before[i]))
	rss=$(awk '/^VmRSS/ {print $2 / 1024}' "/proc/$p/status")
	threads=$(awk '/^Threads/ {print $2}' "/proc/$p/status")
	awk -v n="n$((i + 1))" -v u="$used" -v hz="$hz" -v ns="$took" -v rss="$rss" -v t="$threads" -v f="$(ls "/proc/$p/fd" | wc -l)" \
		'BEGIN {printf "%-5s %15.2f %8.1f %8d %9d\n", n, 100 * u / hz / (ns / 1e9), rss, t, f}'
done
