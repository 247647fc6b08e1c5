//! Folders of the host, where the host command wants them.

use std::fs;
use std::io;

use crate::sys;

/// The folders that the host names, one in each line.
pub fn read() -> String {
    fs::read_to_string(wire::SHARES_PATH).unwrap_or_default()
}

/// Mounts them.
pub fn mount_all(shares: &str) -> io::Result<()> {
    for line in shares.lines() {
        mount(line).map_err(|error| io::Error::other(format!("the share {line}: {error}")))?;
    }
    Ok(())
}

/// Mounts one: its tag, `ro` or `rw`, and its place.
fn mount(line: &str) -> io::Result<()> {
    let mut words = line.splitn(3, ' ');
    let mut next = || words.next().ok_or(io::ErrorKind::InvalidData);
    let (tag, how, place) = (next()?, next()?, next()?);
    let access = match how {
        "ro" => libc::MS_RDONLY,
        _ => 0,
    };
    // The files are those of another machine, with users of its own.
    let flags = access | libc::MS_NOSUID | libc::MS_NODEV;
    // On a read-only root it must exist.
    let _ = fs::create_dir_all(place);
    sys::mount_with_options(tag, place, "9p", flags, "trans=virtio,version=9p2000.L")
}
