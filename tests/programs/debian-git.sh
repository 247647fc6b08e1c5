#: package git
#: long
#: minutes 6
# Debian's git: history, branches, merges, rebase, bisect, clones over a path and over git's own protocol, packs.
export HOME=$PWD TZ=UTC GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'
printf '[user]\n name = A\n email = a@b\n[init]\n defaultBranch = main\n[gc]\n auto = 0\n[advice]\n detachedHead = false\n' >.gitconfig
git init -q repo; cd repo
for i in $(seq 12); do echo "line $i" >>file; [ $i = 8 ] && echo bad >bug; git add -A; git commit -qm "change $i"; done
git checkout -q -b side HEAD~3; echo other >other; git add other; git commit -qm other
git checkout -q main; git merge -q -m merged side; git log --graph --oneline | head -9; git log --stat -1 | tail -3
git checkout -q -b topic HEAD~2; echo t >t; git add t; git commit -qm t; git rebase -q main; git log --oneline | head -2
git checkout -q main; sed -i 's/line 3/three/' file; git diff | tail -n +3; git commit -qam three
git checkout -q -b clash HEAD~1; sed -i 's/line 3/THREE/' file; git commit -qam THREE; git merge main | tail -1; git status --short; git merge --abort
git checkout -q main; git bisect start main main~12 >/dev/null; git bisect run sh -c '! test -e bug' | grep -E 'first bad commit$|^    '; git bisect reset 2>/dev/null
git clone -q . ../clone; git clone -q --bare --no-local . ../bare.git; cd ../clone
echo c >c; git add c; git commit -qm c; git push -q ../bare.git HEAD:refs/heads/pushed; git fetch -q ../bare.git pushed; git log --oneline FETCH_HEAD | wc -l
cd ../repo; git gc -q; git fsck --full --no-dangling && echo sound; git count-objects -v | grep count
git repack -qadf --threads=4; git verify-pack .git/objects/pack/*.idx && echo packed; git cat-file --batch-check --batch-all-objects | wc -l
echo dirty >>file; git stash -q; git status --short; git stash pop -q; git diff --stat; git checkout -q file
git grep -n 'line 1'; git blame -s file | head -3 | cut -d' ' -f2-; git tag -a v1 -m v1; git describe; git archive HEAD | tar t
git worktree add ../tree side 2>/dev/null; git -C ../tree status -sb; git -c protocol.file.allow=always submodule -q add ../clone sub; git submodule status | cut -c1-9
ip link set lo up; touch .git/git-daemon-export-ok
git daemon --base-path=.. --reuseaddr --listen=127.0.0.1 --pid-file=../pid & until git ls-remote -q git://127.0.0.1/repo >../refs 2>/dev/null; do sleep 0.1; done
wc -l <../refs; git clone -q git://127.0.0.1/repo ../net; git -C ../net log --oneline | wc -l; kill $!; wait $!; echo "daemon $?"
