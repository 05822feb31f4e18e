#!/bin/sh
# A container is reached from outside: without an administrator everybody could do everything.
set -eu

# A command, such as: docker run settle backup --help
case "${1:-}" in
  '' | -*) ;;
  *) exec node /opt/settle/dist/cli.js "$@" ;;
esac

has_administrator() {
  env | grep -q '^SETTLE_ADMINS__' && return 0
  for file in /data/local.ini /data/local.d/*.ini /data/settings.ini; do
    [ -f "$file" ] && awk '/^\[/ { inside = ($0 == "[admins]") } inside && /=/ { found = 1 } END { exit !found }' "$file" && return 0
  done
  return 1
}

if [ "${SETTLE_ALLOW_OPEN:-}" != yes ] && ! has_administrator; then
  echo 'settle: There is no administrator. Name one with -e SETTLE_ADMINS__NAME=password, or set SETTLE_ALLOW_OPEN=yes.' >&2
  exit 1
fi
exec node /opt/settle/dist/cli.js "$@"
