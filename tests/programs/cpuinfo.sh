#: only riscv64
# The first block of /proc/cpuinfo, without what our machines differ in and the extensions that Linux 6.12 has no name for.
sed -e '/^$/q' -e 's/^hart\t.*/hart/' -e 's/: sv[0-9].*/: sv/' \
    -e 's/_\(svvptc\|svnapot\|svade\|svadu\|zicbop\|ziccrse\|zaamo\|zalrsc\)//g' /proc/cpuinfo
