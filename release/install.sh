#!/bin/sh
# Installs the binary loopwright on Linux or macOS: downloads the archive of a release, compares its checksum, and
# copies the binary to a directory.
#
#   LOOPWRIGHT_VERSION      the version, such as 0.1.0; the latest if unset
#   LOOPWRIGHT_INSTALL_DIR  the directory; ~/.local/bin if unset
#   LOOPWRIGHT_RELEASES     where the releases are, for mirrors and tests
set -eu

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

# Prints the target whose archive runs on this machine.
target() {
    case $(uname -m) in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) fail "no binary for the processor $(uname -m); try: cargo install loopwright-cli --locked --features full" ;;
    esac
    case $(uname -s) in
    # Linked statically: runs with any C library.
    Linux) echo "$arch-unknown-linux-musl" ;;
    Darwin) echo "$arch-apple-darwin" ;;
    *) fail "no binary for $(uname -s); try: cargo install loopwright-cli --locked --features full" ;;
    esac
}

download() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$2" "$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document "$2" "$1"
    else
        fail "neither curl nor wget is installed"
    fi
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# A function, so that a download of this script that breaks off runs nothing.
main() {
    releases=${LOOPWRIGHT_RELEASES:-https://github.com/loopwright/loopwright/releases}
    directory=${LOOPWRIGHT_INSTALL_DIR:-$HOME/.local/bin}
    version=${LOOPWRIGHT_VERSION:-}
    archive=loopwright-$(target).tar.gz
    if [ -n "$version" ]; then from=$releases/download/v${version#v}; else from=$releases/latest/download; fi

    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    download "$from/$archive" "$scratch/$archive" || fail "cannot download $from/$archive"
    download "$from/$archive.sha256" "$scratch/checksum" || fail "cannot download $from/$archive.sha256"
    expected=$(cut -d' ' -f1 "$scratch/checksum")
    [ "$(sha256 "$scratch/$archive")" = "$expected" ] || fail "the checksum of $archive is wrong; nothing was installed"

    tar -xzf "$scratch/$archive" -C "$scratch"
    mkdir -p "$directory"
    # Renamed into place: a running loopwright keeps its file.
    cp "$scratch/${archive%.tar.gz}/loopwright" "$directory/.loopwright.new"
    chmod 755 "$directory/.loopwright.new"
    mv -f "$directory/.loopwright.new" "$directory/loopwright"
    echo "$("$directory/loopwright" --version) is installed: $directory/loopwright"
    case ":$PATH:" in
    *":$directory:"*) ;;
    *) echo "$directory is not in PATH; add it to start loopwright by its name" ;;
    esac
}

main
