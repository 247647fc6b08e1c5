#: package openjdk-21-jre-headless
#: long
#: minutes 8
# Debian's Java, which is found by the name that its maintainer script makes.
java -Xmx64m -version >said 2>&1; echo "status $?"
sed -n '1s/".*//p' said
readlink -f /usr/bin/java | sed 's/-[a-z0-9]*\/bin/ bin/'
