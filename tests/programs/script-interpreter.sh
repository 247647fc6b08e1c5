# Scripts start their interpreter, with one argument, nested, and fail where it is missing.
printf '#!/bin/sh\necho "plain $0 $1"\n' >plain; chmod +x plain; ./plain one
printf '#!/bin/sh -e\nfalse\necho unreached\n' >strict; chmod +x strict; ./strict; echo $?
printf '#!/case/script-interpreter/plain with argument\n' >nested; chmod +x nested; ./nested two
printf '#!/nosuch\n' >broken; chmod +x broken; ./broken 2>/dev/null; echo $?
printf '#!/usr/bin/awk -f\nBEGIN { print "awk", ARGC }\n' >awkward; chmod +x awkward; ./awkward
