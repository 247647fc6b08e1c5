//! Disks in memory, images of mkfs.ext4, and a model of what a file system holds.
#![allow(dead_code)] // Each test uses a part.

pub mod exercise;
pub mod model;
pub mod raw;
pub mod workloads;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ext4::{Device, Error, Fs, Options, Result, Time};
use rustix::time::{ClockId, clock_gettime};

/// Processor time that this thread has used so far, which is no more on a host that is busy.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The operations done on a disk.
pub enum Event {
    Write(usize, Vec<u8>),
    Flush,
}

/// A disk in memory that can keep a record of what was done to it.
pub struct Disk {
    pub image: Vec<u8>,
    pub record: Option<Vec<Event>>,
    /// So many reads and writes work; then all fail.
    pub works_for: usize,
    /// After so many reads and writes there is no memory for one.
    pub short_after: Option<usize>,
    /// How often others were let have their turn.
    pub pauses: usize,
}

impl Disk {
    pub fn new(image: Vec<u8>) -> Self {
        Self {
            image,
            record: None,
            works_for: usize::MAX,
            short_after: None,
            pauses: 0,
        }
    }

    /// Counts a read or a write.
    fn transfer(&mut self) -> Result<()> {
        if let Some(left) = self.short_after.take() {
            self.short_after = Some(left.checked_sub(1).ok_or(Error::NoMemory)?);
        }
        self.work()
    }

    fn work(&mut self) -> Result<()> {
        self.works_for = self.works_for.checked_sub(1).ok_or(Error::Io)?;
        Ok(())
    }
}

impl Device for Disk {
    fn size(&self) -> u64 {
        self.image.len() as u64
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        self.transfer()?;
        let at = at as usize;
        let from = self.image.get(at..at + into.len()).ok_or(Error::Io)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.transfer()?;
        let at = at as usize;
        let into = self.image.get_mut(at..at + from.len()).ok_or(Error::Io)?;
        into.copy_from_slice(from);
        if let Some(record) = &mut self.record {
            record.push(Event::Write(at, from.to_vec()));
        }
        Ok(())
    }

    fn pause(&mut self) {
        self.pauses += 1;
    }

    fn flush(&mut self) -> Result<()> {
        self.work()?;
        if let Some(record) = &mut self.record {
            record.push(Event::Flush);
        }
        Ok(())
    }
}

/// A file that is removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(content: &[u8]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ext4-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs a program of e2fsprogs, which may be in a folder of the administrator.
pub fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    [
        "/sbin",
        "/usr/sbin",
        "/usr/local/sbin",
        "/opt/homebrew/opt/e2fsprogs/sbin",
    ]
    .iter()
    .map(|folder| PathBuf::from(folder).join(program))
    .find(|path| path.exists())
    .map(|path| Command::new(path).args(arguments).output().unwrap())
}

/// An image of mkfs.ext4. `None`, with a line that says so, where there is no mkfs.ext4.
pub fn make(megabytes: usize, arguments: &str) -> Option<Vec<u8>> {
    let file = Scratch::new(&[]);
    fs::File::options()
        .write(true)
        .open(&file.0)
        .unwrap()
        .set_len((megabytes << 20) as u64)
        .unwrap();
    let fixed = "-q -F -U 11223344-5566-7788-99aa-bbccddeeff00 -E \
                 hash_seed=01020304-0506-0708-090a-0b0c0d0e0f10";
    let mut all: Vec<_> = fixed
        .split_whitespace()
        .chain(arguments.split_whitespace())
        .collect();
    let path = file.0.to_str().unwrap();
    all.push(path);
    let Some(output) = run("mkfs.ext4", &all) else {
        println!("skipped: there is no mkfs.ext4");
        return None;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(fs::read(&file.0).unwrap())
}

/// Fails unless e2fsck finds nothing in an image.
pub fn fsck(image: &[u8], what: &str) {
    let file = Scratch::new(image);
    let path = file.0.to_str().unwrap();
    let output = run("e2fsck", &["-fn", path]).unwrap();
    if output.status.code() != Some(0) {
        let kept = std::env::temp_dir().join("ext4-test-failed");
        let _ = fs::write(kept, image);
        panic!("{what}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Runs commands of debugfs on an image, and returns it and what was printed.
pub fn debugfs(image: &[u8], commands: &[String]) -> (Vec<u8>, String) {
    let file = Scratch::new(image);
    let list = Scratch::new(commands.join("\n").as_bytes());
    let (path, list) = (file.0.to_str().unwrap(), list.0.to_str().unwrap());
    let output = run("debugfs", &["-w", "-f", list, path]).unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    (fs::read(&file.0).unwrap(), told)
}

/// Mounts for writing, at a fixed time.
pub fn mount(image: Vec<u8>) -> Fs<Disk> {
    try_mount(Disk::new(image), false).unwrap()
}

pub fn try_mount(disk: Disk, read_only: bool) -> Result<Fs<Disk>> {
    let now = Time {
        seconds: 1_800_000_000,
        nanoseconds: 5,
    };
    let options = Options {
        read_only,
        now,
        ..Options::default()
    };
    Fs::mount(disk, options)
}

/// Numbers that are the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ self.0 >> 29) >> 16
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// How often the long tests do what they do: STILE_EXT4_ROUNDS, or 1.
pub fn rounds() -> usize {
    std::env::var("STILE_EXT4_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

/// Sets of features that are written.
pub const WRITTEN: [&str; 6] = [
    "-b 1024 -J size=1",
    "-b 4096 -J size=4",
    "-b 1024 -J size=1 -O ^metadata_csum,^64bit -N 2048",
    "-b 4096 -J size=4 -O ^metadata_csum,uninit_bg,^flex_bg -I 128",
    "-b 1024 -J size=1 -O meta_bg,^resize_inode -g 1024",
    "-b 1024 -J size=1 -O sparse_super2,large_dir,^orphan_file,metadata_csum_seed -g 2048",
];
