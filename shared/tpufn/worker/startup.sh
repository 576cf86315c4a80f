#!/bin/bash
# tpufn: prepares a TPU's worker. Runs as root at every boot; doing it again changes nothing.
set -u
# SETTINGS
readonly ROOT="${TPUFN_ROOT:-}"
readonly OWN="$ROOT/var/lib/tpufn"

say() { printf 'tpufn: %s\n' "$*"; }

# Runs a command as the worker's user.
as_user() {
  if [ "$(id -u)" = "$user_id" ]; then "$@"; else runuser -u "$TPUFN_USER" -- "$@"; fi
}

account() { # the user's line of passwd
  grep "^$TPUFN_USER:" "$ROOT/etc/passwd" || getent passwd "$TPUFN_USER"
}

make_user() {
  [ -n "$TPUFN_MAKE_USER" ] || return 0
  account >/dev/null || useradd ${ROOT:+--prefix "$ROOT"} --create-home --shell /bin/bash "$TPUFN_USER"
  install -d -m 0755 "$ROOT/etc/sudoers.d"
  printf '%s ALL=(ALL) NOPASSWD:ALL\n' "$TPUFN_USER" >"$ROOT/etc/sudoers.d/tpufn"
  chmod 0440 "$ROOT/etc/sudoers.d/tpufn"
}

# Sets user_id, group_id and user_home. An OS Login account may not be there yet: then root reports in its stead.
find_user() {
  local line
  user_id=0 group_id=0 user_home="$OWN"
  install -d -m 0755 "$OWN"
  line=$(account) || return 1
  IFS=: read -r _ _ user_id group_id _ user_home _ <<<"$line"
  user_home="$ROOT$user_home"
  [ -d "$user_home" ] || install -d -m 0755 -o "$user_id" -g "$group_id" "$user_home"
}

# Our lines of authorized_keys are replaced, all others stay. As the user: root writes through no link of theirs.
make_keys() {
  [ -n "$TPUFN_MAKE_USER" ] || return 0
  # shellcheck disable=SC2016 # expanded by the inner shell
  as_user env DIRECTORY="$user_home/.ssh" KEYS="$TPUFN_KEYS" bash -c '
    umask 077 && mkdir -p "$DIRECTORY" && cd "$DIRECTORY" && touch authorized_keys &&
    { grep -v " tpufn\$" authorized_keys; printf "%s\n" "$KEYS"; } >".tpufn.$$" && mv ".tpufn.$$" authorized_keys'
}

make_directories() {
  home="$user_home/$TPUFN_HOME_NAME"
  # shellcheck disable=SC2016 # expanded by the inner shell
  as_user env OWN="$home/.tpufn" GENERATION="$TPUFN_GENERATION" bash -c '
    umask 077 && mkdir -p "$OWN" && printf "%s\n" "$GENERATION" >"$OWN/generation"'
}

make_agent() {
  agent="$home/.tpufn/agent-$TPUFN_AGENT.pyz"
  [ -e "$agent" ] && return 0
  # shellcheck disable=SC2016 # expanded by the inner shell
  printf '%s\n' "$TPUFN_AGENT_DATA" |
    as_user env AGENT="$agent" bash -c 'umask 077 && base64 -d >"$AGENT.$$" && mv "$AGENT.$$" "$AGENT"'
}

# Devices that appear later get their mode from udev.
open_devices() {
  local device
  for device in "$ROOT"/dev/accel* "$ROOT"/dev/vfio/*; do
    [ -e "$device" ] && chmod a+rw "$device"
  done
  install -d -m 0755 "$ROOT/etc/udev/rules.d"
  printf 'SUBSYSTEM=="%s", MODE="0666"\n' accel vfio >"$ROOT/etc/udev/rules.d/99-tpufn.rules"
  if [ -z "$ROOT" ] && command -v udevadm >/dev/null; then udevadm control --reload || true; fi
}

# The deployment's own script, as root. Its end is reported, whatever it is; sets script_exit.
run_script() {
  script_exit=0
  : >"$OWN/startup.log"
  [ -n "$TPUFN_SCRIPT_DATA" ] || return 0
  printf '%s\n' "$TPUFN_SCRIPT_DATA" | base64 -d >"$OWN/startup-script" && chmod 0700 "$OWN/startup-script"
  [ "$(head -c 2 "$OWN/startup-script")" = '#!' ] || sed -i '1i #!/bin/bash' "$OWN/startup-script"
  timeout --kill-after=10 "$TPUFN_PATIENCE" "$OWN/startup-script" </dev/null >"$OWN/startup.log" 2>&1 ||
    script_exit=$?
  if [ "$script_exit" -ne 0 ]; then
    say "startup_script failed with $script_exit: $(tail -n 3 "$OWN/startup.log" | tr '\n' ' ')"
  fi
}

report() {
  local key="$ROOT/etc/ssh/ssh_host_ed25519_key.pub"
  chmod 0644 "$OWN/startup.log"
  printf '%s, "exit": %d, "output": "%s", "host_key": "%s"}\n' \
    "${TPUFN_REPORT%\}}" "$script_exit" "$OWN/startup.log" "$key" |
    as_user "$TPUFN_PYTHON" -I -S "$agent" ready --home "$home"
}

step() { "$@" || { say "$1 failed with $?"; failed=yes; }; }

failed=
for each in make_user find_user make_keys make_directories make_agent open_devices run_script report; do
  step "$each"
done
[ -z "$failed" ] && [ "$script_exit" -eq 0 ]
