#!/usr/bin/env bash
# release.sh [--final] VERSION checks that the tree can be released as VERSION, and prints the release notes: the
# short section of CHANGELOG.md. Without --final the changelog may still say "Unreleased", and the sources
# VERSION-dev, as between two releases. make release and make check-release run it.
set -euo pipefail
cd "$(dirname "$0")/.."

final=false
if [[ ${1:-} == --final ]]; then
  final=true
  shift
fi
version=${1:-}
faults=()
fault() { faults+=("$1"); }

[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-rc\.[0-9]+)?$ ]] || {
  echo "release: VERSION \"$version\": must be like 0.1.0 or 0.1.0-rc.1" >&2
  exit 2
}

# says FILE WHAT PATTERN: the version that FILE names.
says() {
  local found
  found=$(sed -nE "s/$3/\\1/p" "$1" | head -1)
  if [[ $found != "$version" ]] && { $final || [[ $found != "$version-dev" ]]; }; then
    fault "$1: $2 is \"$found\"; must be $version"
  fi
}
says internal/cli/build/version.go "Version" '^var Version = "(.*)"$'
says deploy/helm/quorate/Chart.yaml "appVersion" '^appVersion: "?([^"]*)"?$'
says deploy/container/Containerfile "ARG VERSION" '^ARG VERSION=(.*)$'

heading="## [$version] - "
section=$(awk -v want="$heading" 'index($0, want) == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md)
if [[ -z $section ]]; then
  ! $final || fault "CHANGELOG.md: has no section \"$heading$(date -u +%F)\"; rename \"## [Unreleased]\""
  section=$(awk '/^## \[Unreleased\]/ { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md)
fi
notes=$(awk -v want="### ${version%-rc.*} in short" '$0 == want { on = 1; next } /^##/ { on = 0 } on' <<<"$section" | sed -e '/./,$!d')
[[ -n $notes ]] || fault "CHANGELOG.md: the section has no \"### ${version%-rc.*} in short\", which becomes the release notes"

# The first lines that a reader tries must be there to run.
for file in deploy/container/Containerfile deploy/helm/quorate/Chart.yaml deploy/systemd/quorate.service cmd/quorate/main.go client/doc.go examples/limits.yaml; do
  [[ -f $file ]] || fault "$file: missing; the install lines of the notes need it"
done
[[ $(sed -n 's/^module //p' go.mod) == github.com/quorate/quorate ]] || fault "go.mod: the module is not the one of the install lines"
! grep -q '^replace ' go.mod || fault "go.mod: has a replace directive, with which go install refuses the module"

if git rev-parse -q --verify "refs/tags/v$version" >/dev/null 2>&1; then
  fault "tag v$version exists already"
fi
if $final && [[ -n $(git status --porcelain) ]]; then
  fault "the working tree has changes that are not committed"
fi

if [[ ${#faults[@]} -gt 0 ]]; then
  printf 'release: %s\n' "${faults[@]}" >&2
  exit 1
fi
# Links of the changelog are relative to the repository; a release page needs whole ones.
printf '# Quorate %s\n\n' "$version"
sed -E "s#\]\((docs|deploy|examples|client)/#](https://github.com/quorate/quorate/blob/v$version/\1/#g" <<<"$notes"
