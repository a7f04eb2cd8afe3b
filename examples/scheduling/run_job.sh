#!/bin/sh
# Run a job for cron: run_job.sh COMMAND... It prints nothing if all is well, and else what happened and what to do.
# The exit code is that of the job, or 0 if the same job still runs. $LOCKS is a directory for locks.
set -u

lock=$(printf '%s' "$*" | cksum | cut -d ' ' -f 1)
exec 9>"${LOCKS:-/var/lock}/dedupestream-$lock" || exit 3
flock --nonblock 9 || exit 0

output=$("$@" --quiet 2>&1 9>&-)
code=$?
case $code in
  0) exit 0 ;;
  4) exit 0 ;; # an audit had nothing to judge: the stream is new, or nothing came
  1) told='it found defects: see docs/audit.md#verdicts' ;;
  2) told='an option, the manifest or a file is wrong: the next run ends in the same way' ;;
  3) told='it could not run or finish: the next run continues' ;;
  130 | 143) told='it was stopped before it was done: the next run continues' ;;
  *) told='it ended in an unknown way' ;;
esac
printf '%s\nexit code %s: %s\n\n%s\n' "$*" "$code" "$told" "$output"
exit "$code"
