//! What erofs-utils writes is read. Without `mkfs.erofs` these tests say that they are skipped.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use support::{Disk, content, entries, mount};

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("erofs-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Parts that can be compressed well, a little, and not at all, by turns.
fn mixed(length: usize) -> Vec<u8> {
    let (mut bytes, mut state) = (Vec::new(), 1u64);
    while bytes.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (kind, count) = (state >> 60, (state >> 40) % 9000);
        for at in 0..count {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.push(match kind {
                0..6 => (state >> 56) as u8,
                6..11 => b"a few letters"[(state >> 60) as usize % 13],
                _ => (at / 1000) as u8,
            });
        }
    }
    bytes.truncate(length);
    bytes
}

/// Files of all sizes about those of blocks, names, links and holes.
fn fill(tree: &Path) {
    for folder in ["a", "a/b", "many"] {
        fs::create_dir(tree.join(folder)).unwrap();
    }
    for size in [0, 1, 10, 3900, 4000, 4095, 4096, 4097, 5000, 8192, 100_000] {
        let data: Vec<u8> = (0..size).map(|at: usize| (at / 3 % 253) as u8).collect();
        fs::write(tree.join(format!("file{size}")), data).unwrap();
    }
    fs::write(tree.join("mixed"), mixed(400_000)).unwrap();
    let holes = File::create(tree.join("holes")).unwrap();
    holes.write_all_at(b"middle", 500_000).unwrap();
    holes.set_len(1 << 20).unwrap();
    fs::hard_link(tree.join("file10"), tree.join("a/same")).unwrap();
    symlink("../file1", tree.join("a/link")).unwrap();
    symlink("l".repeat(900), tree.join("a/b/long")).unwrap();
    for number in 0..1000 {
        let name = format!("{number:o} {}", "n".repeat(number % 100));
        fs::write(tree.join("many").join(name), number.to_string()).unwrap();
    }
}

/// The image of a tree; `None`, with a line that says so, where there is no mkfs.erofs.
fn make(scratch: &Path, tree: &Path, options: &str) -> Option<Vec<u8>> {
    let program = ["/usr/bin/mkfs.erofs", "/usr/sbin/mkfs.erofs"];
    let Some(program) = program.iter().find(|path| Path::new(path).exists()) else {
        println!("skipped: there is no mkfs.erofs");
        return None;
    };
    let image = scratch.join("image");
    let _ = fs::remove_file(&image);
    let mut command = Command::new(program);
    command.arg("--quiet").args(options.split_whitespace());
    let output = command.arg(&image).arg(tree).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options}: {told}");
    Some(fs::read(&image).unwrap())
}

/// Compares what is read with the tree on the host.
fn compare(fs: &erofs::Fs<Disk>, number: u64, there: &Path) {
    let inode = fs.inode(number).unwrap();
    let found = there.symlink_metadata().unwrap();
    let place = there.display();
    assert_eq!(u32::from(inode.mode()), found.mode(), "{place}");
    if found.is_symlink() {
        let target = fs::read_link(there).unwrap();
        let read = fs.read_link(&inode).unwrap();
        assert_eq!(read, target.as_os_str().as_encoded_bytes(), "{place}");
        return;
    }
    if found.is_file() {
        assert_eq!(u64::from(inode.links()), found.nlink(), "{place}");
        assert!(
            content(fs, &inode).unwrap() == fs::read(there).unwrap(),
            "{place}"
        );
        return;
    }
    let mut read = entries(fs, &inode).unwrap();
    read.retain(|(name, kind, number)| {
        assert_eq!(fs.lookup(&inode, name), Ok(*number), "{place}");
        let mode = fs.inode(*number).unwrap().mode();
        assert_eq!(u16::from(*kind), mode >> 12, "{place}");
        !matches!(&name[..], b"." | b"..")
    });
    let mut names: Vec<_> = fs::read_dir(there)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_encoded_bytes())
        .collect();
    names.sort();
    let known: Vec<_> = read.iter().map(|(name, ..)| name.clone()).collect();
    assert_eq!(known, names, "{place}");
    for (name, _, number) in read {
        let name = String::from_utf8(name).unwrap();
        compare(fs, number, &there.join(name));
    }
}

#[test]
fn trees_are_read() {
    let scratch = Scratch::new();
    let tree = scratch.0.join("tree");
    fs::create_dir(&tree).unwrap();
    fill(&tree);
    for options in [
        "",
        "-E force-inode-compact",
        "-E force-inode-extended,^inline_data",
        "-E force-chunk-indexes --chunksize=4096",
        "-E legacy-compress",
        "--chunksize=65536",
        "-T 5 -x 0",
        "-z lz4",
        "-z lz4hc,12 -C 65536",
        "-z lz4 -C 16384 -E force-inode-extended",
        "-z lz4 -C 131072",
        "-z lz4 --max-extent-bytes=20000",
        "-z lz4hc -E force-inode-compact -C 4096",
    ] {
        let Some(image) = make(&scratch.0, &tree, options) else {
            return;
        };
        let fs = mount(image).unwrap();
        compare(&fs, fs.root(), &tree);
    }
}

#[test]
fn what_is_absent_of_compression_is_refused() {
    let scratch = Scratch::new();
    let tree = scratch.0.join("tree");
    fs::create_dir(&tree).unwrap();
    fill(&tree);
    for options in [
        "-z lz4 -E ztailpacking",
        "-z lz4 -E fragments",
        "-z lz4 -E legacy-compress",
        "-z lz4 -E dedupe",
    ] {
        let mut refused = 0;
        let Some(image) = make(&scratch.0, &tree, options) else {
            return;
        };
        let fs = mount(image).unwrap();
        let root = fs.inode(fs.root()).unwrap();
        for name in ["file100000", "file5000", "mixed"] {
            let file = fs.lookup(&root, name.as_bytes()).unwrap();
            let read = fs.inode(file).and_then(|file| content(&fs, &file));
            // Without such a part it is as any other.
            match read {
                Err(erofs::Error::Unsupported(_)) => refused += 1,
                read => assert!(
                    read.unwrap() == fs::read(tree.join(name)).unwrap(),
                    "{name}"
                ),
            }
        }
        // There may be nothing twice, and no ends that are put together.
        let some = ["dedupe", "fragments"]
            .iter()
            .any(|way| options.ends_with(way));
        assert!(refused > 0 || some, "{options}");
    }
}
