# Sourced by scripts/bootstrap.sh and the Makefile: finds Java 17 or newer for Spark, exports JAVA_HOME if PATH has none, or prints how to install it.
# Sets only JAVA_HOME; returns 1 if there is no usable Java. JAVA_FOLDERS: folders to search instead of the default ones.

java_major() {
    # 'openjdk version "17.0.15"' → 17, '"1.8.0_402"' → 1, empty if this is not a working Java.
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

java_is_usable() {
    local major
    major="$(java_major "$1")" && [ -n "$major" ] && [ "$major" -ge 17 ]
}

java_places() {
    # Search order: JAVA_HOME, PATH, the folders of packages.
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME/bin/java"; fi
    command -v java || true
    local folder
    for folder in ${JAVA_FOLDERS:-/usr/lib/jvm /opt/homebrew/opt /usr/local/opt /Library/Java/JavaVirtualMachines}; do
        printf '%s\n' "$folder"/*/bin/java "$folder"/*/Contents/Home/bin/java
    done
}

java_advice() {
    local how
    case "$(uname -s)" in
        Darwin) how="brew install openjdk@17" ;;
        *)
            if command -v apt-get >/dev/null; then how="sudo apt-get install openjdk-17-jre-headless"
            elif command -v dnf >/dev/null; then how="sudo dnf install java-17-openjdk-headless"
            elif command -v zypper >/dev/null; then how="sudo zypper install java-17-openjdk-headless"
            elif command -v pacman >/dev/null; then how="sudo pacman -S jre17-openjdk-headless"
            elif command -v apk >/dev/null; then how="sudo apk add openjdk17-jre-headless"
            else how="install OpenJDK 17 or newer with your system's package manager"
            fi ;;
    esac
    echo "Spark needs Java 17 or newer and none was found (JAVA_HOME=${JAVA_HOME:-not set}, java on PATH: $(command -v java || echo none))." >&2
    echo "Get it with:  $how" >&2
    echo "or set JAVA_HOME to an installed Java 17, and run make again." >&2
}

java_find() {
    local java
    while IFS= read -r java; do
        if [ -x "$java" ] && java_is_usable "$java"; then
            # Spark's launcher reads JAVA_HOME before PATH, so an old one there must be replaced.
            if [ "$java" != "$(command -v java || true)" ] || [ -n "${JAVA_HOME:-}" ]; then
                JAVA_HOME="$(dirname "$(dirname "$java")")"
                export JAVA_HOME
            fi
            return 0
        fi
    done < <(java_places)
    java_advice
    return 1
}

java_find
