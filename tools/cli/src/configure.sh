# Configures Debian packages, as `dpkg --configure` does, in a machine of their own. Arguments: the architecture, and the
# packages in order. Standard output is an archive of what they wrote, /stile/not-configured in it names those that failed.
exec 3>&1 >&2
cd /
export DEBIAN_FRONTEND=noninteractive DPKG_ROOT= DPKG_ADMINDIR=/var/lib/dpkg DPKG_MAINTSCRIPT_NAME=postinst DPKG_MAINTSCRIPT_ARCH=$1
shift
mkdir -p var/lib/dpkg/updates var/lib/dpkg/triggers var/cache/debconf var/log
# update-alternatives makes links to manual pages too, whose folders no guest has.
for section in 1 2 3 4 5 6 7 8; do
	mkdir -p usr/share/man/man$section
done
# Scripts ask dpkg what is installed.
for control in var/lib/dpkg/info/*.control; do
	sed '/^Package:/a Status: install ok installed' "$control" && echo
done >var/lib/dpkg/status
touch var/lib/dpkg/available
touch /tmp/began
for package; do
	script=/var/lib/dpkg/info/$package.postinst
	DPKG_MAINTSCRIPT_PACKAGE=$package $script configure '' </dev/null >/tmp/said 2>&1 3>&- ||
		echo "$package (its postinst failed: $(tail -n 1 /tmp/said))" >>stile/not-configured
done
# By its ctime: update-alternatives gives a link the mtime of what it leads to.
find etc stile usr var -cnewer /tmp/began ! -path 'var/cache/*' ! -path 'var/log/*' \
	\( -path 'var/lib/dpkg/alternatives/*' -o ! -path 'var/lib/dpkg/*' \) ! -type d >/tmp/written
tar --create --files-from /tmp/written >&3
