//! Tests inside the kernel: path walk, tmpfs, pipes.

use super::file::{FileOps, Whence};
use super::file_lock::{self, Lock, Owner};
use super::fs_context::FsShare;
use super::inode::{Kind, New, Replace, SetAttr};
use super::io::{Sink, Source};
use super::poll::{Events, PollTable, WaitSource};
use super::tmpfs::{Options, Tmpfs};
use super::walk::Walk;
use super::{Dentry, File, FsContext, OpenFlags, Path, epoll, eventfd, mount, pipe, sigio};
use crate::arch::irq::{self, Interrupted};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::selftest;
use crate::sync::{Mutex, might_sleep};
use crate::task::{current, sched};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

fn make(directory: &Arc<Dentry>, name: &str, mode: u32) -> Arc<Dentry> {
    directory
        .inode()
        .create(directory, name.as_bytes(), New::Node(mode, 0))
        .unwrap()
}

fn symlink(directory: &Arc<Dentry>, name: &str, target: &str) {
    directory
        .inode()
        .create(directory, name.as_bytes(), New::Symlink(target.as_bytes()))
        .unwrap();
}

/// A tree with `/a/b/file`, and a context in it.
fn tree() -> (Arc<FsContext>, Arc<Dentry>, Arc<Dentry>) {
    let root = Tmpfs::new_root(&Options::unlimited(0o755)).unwrap();
    let b = make(&make(&root, "a", S_IFDIR | 0o755), "b", S_IFDIR | 0o755);
    let file = make(&b, "file", S_IFREG | 0o644);
    let root = mount::init(root).unwrap();
    (FsShare::new(root).unwrap().context().clone(), b, file)
}

fn open(dentry: &Arc<Dentry>, flags: u32) -> Arc<File> {
    File::open(dentry.clone(), OpenFlags(O_RDWR | flags)).unwrap()
}

fn remove(directory: &Arc<Dentry>, name: &[u8]) -> Result<()> {
    let victim = directory.inode().lookup(directory, name)?;
    directory.inode().remove(directory, &victim)
}

fn rename(from: (&Arc<Dentry>, &[u8]), to: (&Arc<Dentry>, &[u8]), replace: Replace) -> Result<()> {
    let source = from.0.inode().lookup(from.0, from.1)?;
    let occupant = to.0.inode().lookup(to.0, to.1).ok();
    from.0
        .inode()
        .rename((from.0, &source), to, occupant.as_ref(), replace)
}

fn text(context: &FsContext, path: &Path) -> Vec<u8> {
    path.text(&context.root()).unwrap().0
}

fn names(directory: &Arc<Dentry>) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let file = File::open(directory.clone(), OpenFlags(0)).unwrap();
    file.read_dir(&mut |record| {
        names.push(record.name.to_vec());
        true
    })
    .unwrap();
    names
}

selftest! {
    fn walk_follows_names_dots_and_links() {
        let (context, b, file) = tree();
        symlink(&b, "up", "../b/./file");
        symlink(&b, "far", "/a/b/up");
        symlink(&b, "loop", "loop");
        symlink(&b, "dir", "..");
        let resolve = |path: &str, follow| {
            Walk::new(&context).resolve(None, path.as_bytes(), follow).map(|path| path.text(&context.root()).unwrap().0)
        };
        for path in ["a/b/file", "/a//b/./file", "/../a/b/../b/file", "a/b/up", "/a/b/far", "a/b/dir/b/file"] {
            assert_eq!(resolve(path, true).as_deref(), Ok(&b"/a/b/file"[..]), "{path}");
        }
        assert_eq!(resolve("/", true).as_deref(), Ok(&b"/"[..]));
        assert_eq!(resolve("a/b/up", false).as_deref(), Ok(&b"/a/b/up"[..]));
        for (path, error) in [
            ("", Errno::ENOENT),
            ("a/x", Errno::ENOENT),
            ("a/b/file/", Errno::ENOTDIR),
            ("a/b/file/x", Errno::ENOTDIR),
            ("a/b/up/", Errno::ENOTDIR),
            ("a/b/loop", Errno::ELOOP),
        ] {
            assert_eq!(resolve(path, true), Err(error), "{path}");
        }
        assert!(Walk::new(&context).resolve(Some(&context.root().with(b.clone())), b"file", true).is_ok_and(|found| Arc::ptr_eq(&found, &file)));
        let long = vec![b'x'; 256];
        assert_eq!(Walk::new(&context).resolve(None, &long, true).err(), Some(Errno::ENAMETOOLONG));
    }
}

selftest! {
    fn walk_stops_before_the_last_part() {
        let (context, b, _) = tree();
        let mut walk = Walk::new(&context);
        for (path, name, directory) in
            [("a/b/new", "new", false), ("a/b/new//", "new", true), ("/a/b/..", "..", false), ("a/b/./x", "x", false)]
        {
            let (parent, last) = walk.parent(None, path.as_bytes()).unwrap();
            assert!(Arc::ptr_eq(&parent, &b) && last.name == name.as_bytes() && last.directory == directory, "{path}");
        }
        assert_eq!(walk.parent(None, b"/").unwrap().1.name, b"");
        assert_eq!(walk.parent(None, b"a/b/file/x").err(), Some(Errno::ENOTDIR));
    }
}

selftest! {
    fn walk_crosses_mounts() {
        let (context, b, _) = tree();
        mount::mount(b"none", context.root().with(b.clone()), b"tmpfs", 0, b"").unwrap();
        let top = Walk::new(&context).resolve(None, b"/a/b", true).unwrap();
        assert!(!Arc::ptr_eq(&top, &b) && text(&context, &top) == b"/a/b");
        make(&top, "inside", S_IFREG | 0o644);
        let found = Walk::new(&context).resolve(None, b"a/b/../b/inside", true).unwrap();
        assert_eq!(text(&context, &found), b"/a/b/inside");
        assert_eq!(mount::unmount(top.clone(), 0), Err(Errno::EBUSY));
        drop(found);
        mount::unmount(top, 0).unwrap();
        assert_eq!(Walk::new(&context).resolve(None, b"/a/b/inside", true).err(), Some(Errno::ENOENT));
        assert!(Walk::new(&context).resolve(None, b"/a/b/file", true).is_ok());
    }
}

selftest! {
    fn tmpfs_reads_what_was_written() {
        let (_, _, dentry) = tree();
        let file = open(&dentry, 0);
        let text: Vec<u8> = (0..3 * PAGE_SIZE + 10).map(|at| at as u8).collect();
        assert_eq!(file.write_at(&mut Source::kernel(&text), 100), Ok(text.len()));
        let mut back = vec![1; text.len() + 500];
        assert_eq!(file.read_kernel(0, &mut back), Ok(text.len() + 100));
        assert!(back[..100].iter().all(|&byte| byte == 0) && back[100..100 + text.len()] == text[..]);
        assert_eq!(file.seek(0, Whence::End), Ok(100 + text.len() as u64));
        dentry.inode().truncate(150).unwrap();
        dentry.inode().truncate(PAGE_SIZE as u64).unwrap();
        assert_eq!(file.read_kernel(140, &mut back[..20]), Ok(20));
        assert!(back[..10] == text[40..50] && back[10..20] == [0; 10]);
        assert_eq!(dentry.inode().attr().blocks, PAGE_SIZE as u64 / 512);
        let end = open(&dentry, O_APPEND);
        assert_eq!(end.write(&mut Source::kernel(b"end")), Ok(3));
        assert_eq!(dentry.inode().attr().size, PAGE_SIZE as u64 + 3);
    }
}

selftest! {
    fn tmpfs_has_holes() {
        let (_, _, dentry) = tree();
        let (file, page) = (open(&dentry, 0), PAGE_SIZE as u64);
        file.write_at(&mut Source::kernel(b"x"), 5 * page).unwrap();
        assert_eq!(file.seek(0, Whence::Data), Ok(5 * page));
        assert_eq!(file.seek(0, Whence::Hole), Ok(0));
        assert_eq!(file.seek(5 * page as i64, Whence::Hole), Ok(5 * page + 1));
        assert_eq!(file.seek(6 * page as i64, Whence::Data), Err(Errno::ENXIO));
        file.ops().allocate(&file, 0, 0, 2 * page).unwrap();
        assert_eq!(dentry.inode().attr().blocks, 3 * page / 512);
        let mut byte = [1];
        assert_eq!(file.read_kernel(7, &mut byte), Ok(1));
        assert_eq!(byte, [0]);
    }
}

selftest! {
    fn tmpfs_names_come_go_and_move() {
        let (context, b, file) = tree();
        let root = context.root();
        let a = b.parent().unwrap();
        let path = |dentry: &Arc<Dentry>| text(&context, &root.with(dentry.clone()));
        let inode = b.inode();
        inode.add_link(&b, b"second", file.inode()).unwrap();
        assert_eq!(file.inode().attr().links, 2);
        assert_eq!(inode.create(&b, b"second", New::Node(S_IFREG, 0)).err(), Some(Errno::EEXIST));
        assert_eq!(remove(&a, b"b"), Err(Errno::ENOTEMPTY));
        rename((&b, b"second"), (&a, b"moved"), Replace::Yes).unwrap();
        assert_eq!((names(&a).len(), names(&b).len()), (4, 3));
        assert_eq!(rename((&a, b"b"), (&b, b"x"), Replace::Yes), Err(Errno::EINVAL));
        assert_eq!(rename((&b, b"file"), (&a, b"moved"), Replace::No), Err(Errno::EEXIST));
        rename((&a, b"b"), (&root, b"c"), Replace::Yes).unwrap();
        assert_eq!(path(&file), b"/c/file");
        assert_eq!((root.inode().attr().links, a.inode().attr().links), (4, 2));
        rename((&root, b"c"), (&a, b"moved"), Replace::Exchange).unwrap();
        assert_eq!(path(&file), b"/a/moved/file");
        remove(&b, b"file").unwrap();
        assert_eq!(path(&file), b"/a/moved/file (deleted)");
        assert_eq!(file.inode().attr().links, 1);
        remove(&a, b"moved").unwrap();
        assert_eq!(b.inode().create(&b, b"late", New::Node(S_IFREG, 0)).err(), Some(Errno::ENOENT));
    }
}

selftest! {
    fn tmpfs_lists_what_stays_while_others_go() {
        let root = Tmpfs::new_root(&Options::unlimited(0o755)).unwrap();
        for name in ["one", "two", "three", "four"] {
            make(&root, name, S_IFREG);
        }
        let file = File::open(root.clone(), OpenFlags(0)).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 6 {
            let before = seen.len();
            file.read_dir(&mut |record| {
                let take = seen.len() == before;
                if take {
                    seen.push(record.name.to_vec());
                }
                take
            })
            .unwrap();
            if let Some(name) = seen.last().filter(|name| name.len() > 2) {
                remove(&root, name).unwrap();
            }
        }
        assert_eq!(seen, [&b"."[..], b"..", b"one", b"two", b"three", b"four"]);
        assert_eq!(names(&root).len(), 2);
    }
}

selftest! {
    fn tmpfs_attributes() {
        let (_, _, file) = tree();
        let change = SetAttr { permissions: Some(0o600), uid: Some(7), ..SetAttr::default() };
        file.inode().set_attr(&change).unwrap();
        let attr = file.inode().attr();
        assert_eq!((attr.mode, attr.uid, attr.gid, file.kind()), (S_IFREG | 0o600, 7, 0, Kind::Regular));
    }
}

fn write(end: &File, bytes: &[u8]) -> Result<usize> {
    end.write(&mut Source::kernel(bytes))
}

fn read(end: &File, len: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    let count = end.read(&mut Sink::kernel(&mut buffer))?;
    buffer.truncate(count);
    Ok(buffer)
}

selftest! {
    fn pipe_passes_bytes_on() {
        let [reader, writer] = pipe::pair(O_NONBLOCK).unwrap();
        assert_eq!(read(&reader, 1), Err(Errno::EAGAIN));
        assert_eq!(reader.poll(None), Events::empty());
        assert_eq!(write(&writer, b"hello"), Ok(5));
        assert_eq!(reader.poll(None), Events::IN);
        assert_eq!(read(&reader, 2).as_deref(), Ok(&b"he"[..]));
        assert_eq!(read(&reader, 9).as_deref(), Ok(&b"llo"[..]));
        assert_eq!(write(&reader, b"x"), Err(Errno::EBADF));
        drop(writer);
        assert_eq!(reader.poll(None), Events::HANG_UP);
        assert_eq!(read(&reader, 9).as_deref(), Ok(&b""[..]));
    }
}

selftest! {
    fn pipe_fills_up_and_keeps_small_writes_whole() {
        let [reader, writer] = pipe::pair(O_NONBLOCK).unwrap();
        let bytes: Vec<u8> = (0..70_000u32).map(|at| (at % 251) as u8).collect();
        assert_eq!(write(&writer, &bytes), Ok(65536));
        assert_eq!((write(&writer, b"x"), writer.poll(None)), (Err(Errno::EAGAIN), Events::empty()));
        assert_eq!(read(&reader, 4095).unwrap(), bytes[..4095]);
        assert_eq!(write(&writer, &bytes[..4096]), Err(Errno::EAGAIN));
        assert_eq!(write(&writer, &bytes[..5000]), Ok(4095));
        assert_eq!(read(&reader, 65536).unwrap(), [&bytes[4095..65536], &bytes[..4095]].concat());
        assert_eq!(read(&reader, 1), Err(Errno::EAGAIN));
    }
}

selftest! {
    fn pipe_changes_its_size() {
        let [reader, writer] = pipe::pair(O_NONBLOCK).unwrap();
        let end = writer.ops_as::<pipe::End>().unwrap();
        let bytes: Vec<u8> = (0..65536u32).map(|at| (at % 253) as u8).collect();
        write(&writer, &bytes).unwrap();
        read(&reader, 100).unwrap();
        write(&writer, &bytes[..100]).unwrap();
        assert_eq!(end.resize(4096), Err(Errno::EBUSY));
        assert_eq!(end.resize(65537), Ok(131072));
        assert_eq!(read(&reader, 100_000).unwrap(), [&bytes[100..], &bytes[..100]].concat());
        assert_eq!((end.resize(1), end.size()), (Ok(4096), 4096));
    }
}

/// The `data` of the events that a set returns.
fn ready(set: &epoll::Epoll) -> Vec<u64> {
    let mut found = Vec::new();
    set.take(8, &mut |_, event| {
        found.push(event.data);
        Ok(())
    })
    .unwrap();
    found
}

selftest! {
    fn epoll_tells_level_edge_and_one_shot() {
        let event = |events: u32, data| epoll::Event { events, pad: 0, data };
        let file = epoll::new().unwrap();
        let set = file.ops_as::<epoll::Epoll>().unwrap();
        let [reader, writer] = pipe::pair(O_NONBLOCK).unwrap();
        set.add(3, &reader, event(EPOLLIN, 1)).unwrap();
        assert_eq!(set.add(3, &reader, event(EPOLLIN, 1)), Err(Errno::EEXIST));
        set.add(4, &reader, event(EPOLLIN | EPOLLET, 2)).unwrap();
        set.add(5, &reader, event(EPOLLIN | EPOLLONESHOT, 3)).unwrap();
        assert_eq!((ready(&set), file.poll(None)), (vec![], Events::empty()));
        write(&writer, b"x").unwrap();
        assert_eq!(file.poll(None), Events::IN);
        assert_eq!((ready(&set), ready(&set)), (vec![1, 2, 3], vec![1]));
        write(&writer, b"y").unwrap();
        assert_eq!(ready(&set), [1, 2]);
        set.modify(5, &reader, event(EPOLLIN | EPOLLONESHOT, 4)).unwrap();
        assert_eq!(ready(&set), [1, 4]);
        read(&reader, 9).unwrap();
        assert_eq!(ready(&set), []);
        set.remove(3, &reader).unwrap();
        assert_eq!(set.remove(3, &reader), Err(Errno::ENOENT));
        drop(writer);
        assert_eq!(ready(&set), [2]);
        drop(reader);
        assert_eq!(ready(&set), []);
        let other = epoll::new().unwrap();
        set.add(6, &other, event(EPOLLIN, 0)).unwrap();
        assert_eq!(other.ops_as::<epoll::Epoll>().unwrap().add(7, &file, event(EPOLLIN, 0)), Err(Errno::ELOOP));
    }
}

selftest! {
    fn members_of_a_set_are_told_in_the_order_in_which_they_became_ready() {
        const FILES: usize = 24;
        let holder = epoll::new().unwrap();
        let set = holder.ops_as::<epoll::Epoll>().unwrap();
        let files: Vec<_> = (0..FILES).map(|_| eventfd::new(0, 0).unwrap()).collect();
        let event = |data| epoll::Event { events: EPOLLIN | EPOLLET, pad: 0, data };
        let (mut member, mut written) = ([false; FILES], [false; FILES]);
        let mut queue: Vec<u64> = Vec::new();
        let mut random = 88172645463325252u64;
        for _ in 0..5000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let (at, what) = (random as usize % FILES, random >> 32 & 7);
            let (fd, data) = (at as i32, at as u64);
            match what {
                0 if member[at] => {
                    set.remove(fd, &files[at]).unwrap();
                    queue.retain(|&queued| queued != data);
                    member[at] = false;
                }
                0 | 1 if !member[at] => {
                    set.add(fd, &files[at], event(data)).unwrap();
                    member[at] = true;
                    queue.extend(written[at].then_some(data));
                }
                2 => {
                    let count = queue.len().min(8);
                    assert_eq!(ready(&set), queue.drain(..count).collect::<Vec<_>>());
                }
                _ => {
                    write(&files[at], &1u64.to_ne_bytes()).unwrap();
                    written[at] = true;
                    if member[at] && !queue.contains(&data) {
                        queue.push(data);
                    }
                }
            }
        }
    }
}

/// The address of the thread in which a [`Last`] was dropped.
static ENDED_IN: AtomicUsize = AtomicUsize::new(0);

/// A file whose other references are dropped while it is examined.
struct Last {
    changed: Arc<WaitSource>,
    others: Arc<Mutex<Option<Arc<File>>>>,
}

impl FileOps for Last {
    fn is_stream(&self) -> bool {
        true
    }

    fn can_poll(&self, _file: &File) -> bool {
        true
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        match table {
            Some(table) => table.add(&self.changed),
            None => drop(self.others.lock().take()),
        }
        Events::IN
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        might_sleep();
        ENDED_IN.store(core::ptr::from_ref(&current()).addr(), Release);
    }
}

/// Under a spin lock, changes a file that only the watcher references by then, and waits until it
/// is closed.
fn change_last(watch: impl FnOnce(&Arc<File>)) {
    let (changed, others) = (WaitSource::new().unwrap(), Arc::new(Mutex::new(None)));
    let new = |path: Path| {
        let (changed, others) = (changed.clone(), others.clone());
        File::with_ops(path, Arc::new(Last { changed, others }), OpenFlags(O_RDWR)).unwrap()
    };
    let lock = |file: &File| Lock {
        owner: Owner::flock(file),
        process: 1,
        exclusive: true,
        first: 0,
        last: u64::MAX,
    };
    let path = Path::from(tree().1);
    let file = new(path.clone());
    watch(&file);
    file_lock::acquire(&file, lock(&file), false).unwrap();
    *others.lock() = Some(file);
    ENDED_IN.store(0, Release);
    let spins = Mutex::new(());
    let held = spins.lock();
    changed.notify();
    drop(held);
    while ENDED_IN.load(Acquire) == 0 {
        sched::schedule();
        irq::service(Interrupted::Kernel);
    }
    let here = core::ptr::from_ref(&current()).addr();
    assert_ne!(ENDED_IN.load(Acquire), here);
    let other = new(path);
    assert!(
        file_lock::conflict(&other, &lock(&other)).is_none(),
        "its lock is left"
    );
}

selftest! {
    fn a_file_never_ends_under_a_lock_of_who_changes_it() {
        change_last(|file| sigio::watch(file, 3, true).unwrap());
        let set = epoll::new().unwrap();
        let set = set.ops_as::<epoll::Epoll>().unwrap();
        let events = EPOLLIN | EPOLLEXCLUSIVE;
        change_last(|file| set.add(3, file, epoll::Event { events, pad: 0, data: 0 }).unwrap());
    }
}
