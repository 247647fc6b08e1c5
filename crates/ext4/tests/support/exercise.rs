//! Operations of all kinds, chosen by the input's bytes, on an image that may be damaged. Their
//! results do not matter, only that they return.

use ext4::{Change, Device, Fs, New, ROOT, Rename, Result, Time};

/// Inodes that were met, and what they were called.
struct Met {
    inodes: Vec<u32>,
    names: Vec<(u32, Vec<u8>)>,
}

impl Met {
    fn inode(&self, choice: u8) -> u32 {
        self.inodes[usize::from(choice) % self.inodes.len()]
    }

    /// A name that was met, or a new one.
    fn name(&self, choice: u8) -> (u32, Vec<u8>) {
        let choice = usize::from(choice);
        match self.names.get(choice / 2) {
            Some(name) if choice.is_multiple_of(2) => name.clone(),
            _ => (
                self.inode(choice as u8),
                format!("{choice} {}", "n".repeat(choice % 200)).into(),
            ),
        }
    }

    fn meet(&mut self, parent: u32, name: &[u8], inode: u32) {
        if self.names.len() < 128 && !matches!(name, b"." | b"..") {
            self.names.push((parent, name.to_vec()));
        }
        if self.inodes.len() < 200 && !self.inodes.contains(&inode) {
            self.inodes.push(inode);
        }
    }
}

/// A number of a block: small ones, and those at the ends.
fn block(choice: u8) -> u32 {
    let choice = u32::from(choice);
    match choice {
        0..200 => choice,
        200..240 => 1 << (choice - 200).min(31),
        _ => u32::MAX - (choice - 240),
    }
}

/// Reads what there is, then does an operation for each four bytes.
pub fn exercise<D: Device>(fs: &mut Fs<D>, operations: &[u8]) {
    let mut met = Met {
        inodes: vec![ROOT],
        names: Vec::new(),
    };
    for at in 0..40 {
        let Some(number) = met.inodes.get(at).copied() else {
            break;
        };
        let _ = look(fs, number, &mut met, 0);
    }
    for operation in operations.chunks_exact(4) {
        let [kind, one, two, three] = operation.try_into().unwrap();
        let _ = operate(fs, &mut met, kind, [one, two, three]);
    }
    let _ = fs.commit();
}

/// Reads what an inode has.
fn look<D: Device>(fs: &mut Fs<D>, number: u32, met: &mut Met, from: u64) -> Result<()> {
    let inode = fs.inode(number)?;
    let _ = fs.attributes(&inode, |_, _| {});
    let _ = fs.attribute(&inode, b"user.x");
    let _ = fs.read_link(&inode);
    let _ = fs.read_inline(&inode);
    let mut left = 300;
    fs.read_directory(&inode, from, |entry| {
        met.meet(number, entry.name, entry.inode);
        left -= 1;
        left > 0
    })
}

fn operate<D: Device>(fs: &mut Fs<D>, met: &mut Met, kind: u8, bytes: [u8; 3]) -> Result<()> {
    let [one, two, three] = bytes;
    let number = met.inode(one);
    let (parent, name) = met.name(two);
    let size = fs.geometry().block_size as u64;
    match kind % 22 {
        0 => look(fs, number, met, u64::from(block(two)) << (three % 33))?,
        1 => {
            let inode = fs.inode(parent)?;
            let found = fs.lookup_inode(&inode, &name)?;
            met.meet(parent, &name, found.number);
        }
        2 | 3 => {
            let mode = [0o100644, 0o040755, 0o120777, 0o020600, 0o010600, 0o140600];
            let new = New {
                mode: mode[usize::from(three) % 6],
                target: &[b't'; 200][..usize::from(three).min(200)],
                ..New::default()
            };
            let inode = fs.create(parent, &name, new)?;
            met.meet(parent, &name, inode.number);
        }
        4 => {
            let inode = fs.unlink(parent, &name)?;
            fs.evict(inode.number)?;
        }
        5 => {
            let inode = fs.rmdir(parent, &name)?;
            fs.evict(inode.number)?;
        }
        6 => {
            let how = [Rename::Replace, Rename::NoReplace, Rename::Exchange];
            let (to, new) = met.name(three);
            let to = if one.is_multiple_of(2) { to } else { number };
            fs.rename(parent, &name, to, &new, how[usize::from(one) % 3])?;
        }
        7 => _ = fs.link(number, parent, &name)?,
        8 | 9 => _ = fs.allocate(number, block(two), block(three))?,
        10 => fs.mark_written(number, block(two), block(three))?,
        11 => fs.truncate(number, u64::from(block(two)) * size + u64::from(three))?,
        12 => fs.extend(number, u64::from(block(two)) * size + u64::from(three))?,
        13 => fs.punch_hole(number, block(two), block(three))?,
        14 => fs.zero_range(number, block(two), u32::from(three))?,
        15 => fs.set_attribute(number, b"user.x", Some(&[two; 256][..usize::from(three)]))?,
        16 => fs.set_attribute(number, format!("user.{}", two % 9).as_bytes(), None)?,
        17 => fs.checkpoint()?,
        18 => {
            let inode = fs.inode(number)?;
            let _ = fs.map(&inode, block(two));
            let _ = fs.next_hole(&inode, block(two));
            let _ = fs.next_data(&inode, block(three));
        }
        19 => {
            let new = New {
                mode: 0o100600,
                ..New::default()
            };
            let inode = fs.create_unnamed(number, new)?;
            met.inodes.push(inode.number);
        }
        20 => {
            fs.evict(number)?;
            fs.sync_inode(number, true)?;
        }
        _ => {
            let flags = fs.inode(number)?.user_flags();
            fs.set_user_flags(number, flags ^ 1 << (three % 32))?;
            let change = Change {
                modify: Some(Time {
                    seconds: i64::from(two) << (three % 64),
                    nanoseconds: 0,
                }),
                ..Change::default()
            };
            fs.change_inode_attributes(number, change)?;
            fs.statistics()?;
        }
    }
    Ok(())
}
