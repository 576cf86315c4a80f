#!/bin/sh
# tpufn's set-up of a TPU VM where the deployment names no `bootstrap` script. Runs as you, on every worker; running it
# again is harmless. Says what is there, installs what an interactive session misses, and changes nothing else.
set -eu

echo "worker ${TPUFN_WORKER:-0} of ${TPUFN_SLOT:-?}: $(uname -sr), $(nproc 2>/dev/null || echo '?') CPUs"
if ls /dev/accel* /dev/vfio/* >/dev/null 2>&1; then
  echo "TPU devices: $(ls -d /dev/accel* /dev/vfio/[0-9]* 2>/dev/null | tr '\n' ' ')"
else
  echo "no TPU device is visible"
fi
if [ "${TPUFN_SANDBOX:-}" = 1 ]; then
  echo "a simulated worker: nothing is installed"
  exit 0
fi

missing=""
for tool in tmux git rsync htop; do
  command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
  echo "installing$missing"
  # a fresh VM upgrades itself for some minutes and holds the lock meanwhile
  sudo DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 update -qq
  # shellcheck disable=SC2086  # a list of words
  sudo DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq $missing
fi

if ssh-add -l >/dev/null 2>&1; then
  echo "your SSH agent is here"
else
  echo "no SSH agent was forwarded: private repositories cannot be cloned from here"
fi
mkdir -p "$HOME/.tpufn"
date -u +%FT%TZ > "$HOME/.tpufn/set-up"
echo "set up"
