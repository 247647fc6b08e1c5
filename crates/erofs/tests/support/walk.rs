//! Reads what an image has that may be damaged: what comes of it does not matter, only that it
//! comes.

use erofs::{Inode, Result};

use super::{Disk, mount};

/// Inodes that are read at most, and entries of each directory.
const MOST: usize = 100;

/// Mounts an image, if that can be done, and reads what there is.
pub fn exercise(image: Vec<u8>) {
    let Ok(fs) = mount(image) else { return };
    let mut met = vec![fs.root()];
    let mut at = 0;
    while at < met.len().min(MOST) {
        if let Ok(inode) = fs.inode(met[at]) {
            _ = look(&fs, &inode, &mut met);
        }
        at += 1;
    }
}

fn look(fs: &erofs::Fs<Disk>, inode: &Inode, met: &mut Vec<u64>) -> Result<()> {
    let mut names = Vec::new();
    _ = fs.attributes(inode, |family, name| {
        names.push([family, name].concat());
        true
    });
    for name in &names {
        _ = fs.attribute(inode, name);
    }
    _ = fs.read_link(inode);
    let mut bytes = [0; 5000];
    for place in [0, inode.size() / 2, inode.size().saturating_sub(2000)] {
        _ = fs.read(inode, place, &mut bytes);
    }
    let mut names = Vec::new();
    let done = fs.read_directory(inode, 0, |entry| {
        assert!(!entry.name.is_empty() && entry.name.len() < 256);
        if !met.contains(&entry.inode) {
            met.push(entry.inode);
        }
        names.push(entry.name.to_vec());
        names.len() < MOST
    });
    for name in &names {
        _ = fs.lookup(inode, name);
    }
    done
}
