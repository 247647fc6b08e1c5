//! Workloads of programs that guard against power cuts, in steps of one operation each, so that the
//! list of states has one for each moment at which the file system may commit by itself.

use ext4::{Device as _, Error, New, ROOT, Rename};

use super::Event;
use super::model::{Node, Pair};

/// A way to use a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// All operations at random.
    Any,
    /// A file is written, synced and renamed over the one that it replaces.
    Replace,
    /// Files grow by a block, and are synced.
    Append,
    /// Many small files are made, and removed again.
    Many,
    /// Attributes of all lengths come and go.
    Attributes,
    /// Files with many extents are cut short, and removed while they are open.
    Shorten,
}

pub const ALL: [Workload; 6] = [
    Workload::Any,
    Workload::Replace,
    Workload::Append,
    Workload::Many,
    Workload::Attributes,
    Workload::Shorten,
];

impl Pair {
    /// A step of a workload. Returns whether all that was done before it is durable.
    pub fn work(&mut self, workload: Workload, turn: usize) -> bool {
        match workload {
            Workload::Any => return self.step(),
            Workload::Replace => match turn % 5 {
                0 => self.make(b"new"),
                1 => self.grow(b"new"),
                2 => self.fill(b"new"),
                3 => return self.sync(b"new"),
                _ => self.replace(b"new", b"target"),
            },
            Workload::Append => {
                let name = [b"one", b"two"][turn / 4 % 2];
                match turn % 4 {
                    0 => self.make(name),
                    1 => self.grow(name),
                    2 => self.fill(name),
                    _ => return self.sync(name),
                }
            }
            Workload::Many => {
                let file = turn / 3 % 194;
                let name = format!("{} {}", file % 97, "m".repeat(file % 97)).into_bytes();
                match turn % 3 {
                    0 if file >= 97 => self.remove_name(&name),
                    0 => self.make(&name),
                    1 if file.is_multiple_of(7) => return self.sync(&name),
                    1 => self.grow(&name),
                    _ => self.fill(&name),
                }
            }
            Workload::Attributes => match turn % 12 {
                0 => self.make(b"one"),
                6 => self.make(b"two"),
                4 | 10 => return self.sync(b"one"),
                11 if turn % 60 > 48 => self.remove_name(b"two"),
                _ => self.attribute(),
            },
            Workload::Shorten => match turn % 60 {
                0 => self.make(b"long"),
                20 | 50 | 53 => return self.sync(b"long"),
                52 | 57 => self.cut_to(b"long", [60, 0][turn % 60 / 57]),
                54 => self.make(b"held"),
                58 if turn % 120 > 60 => self.remove_name(b"long"),
                59 => return self.sync(b"held"),
                step => self.fill_at(b"long", step as u32 * 2),
            },
        }
        false
    }

    fn named(&self, name: &[u8]) -> Option<u32> {
        self.model.nodes[&ROOT].entries.get(name).copied()
    }

    /// Makes a file, if it is not there.
    fn make(&mut self, name: &[u8]) {
        let mode = 0o100600;
        let new = New {
            mode,
            ..New::default()
        };
        match self.fs.create(ROOT, name, new) {
            Err(Error::Exists | Error::NoSpace) => {}
            result => {
                let number = result.unwrap().number;
                let node = Node {
                    mode,
                    names: 1,
                    ..Node::default()
                };
                self.model.nodes.insert(number, node);
                let root = self.model.nodes.get_mut(&ROOT).unwrap();
                root.entries.insert(name.to_vec(), number);
                self.unsynced.insert(number);
            }
        }
    }

    /// Lets a file have a block more, which is a hole.
    fn grow(&mut self, name: &[u8]) {
        let size = self.fs.geometry().block_size as u64;
        if let Some(number) = self.named(name) {
            let node = self.model.nodes.get_mut(&number).unwrap();
            self.fs.extend(number, node.size + size).unwrap();
            node.size += size;
            self.unsynced.insert(number);
        }
    }

    /// Fills the last block of a file.
    fn fill(&mut self, name: &[u8]) {
        let size = self.fs.geometry().block_size as u64;
        let number = self.named(name);
        let blocks = number.map_or(0, |number| self.model.nodes[&number].size / size);
        if let Some(last) = blocks.checked_sub(1) {
            self.fill_at(name, last as u32);
        }
    }

    /// Fills a block of a file, whose size is set before if need be.
    fn fill_at(&mut self, name: &[u8], block: u32) {
        let size = self.fs.geometry().block_size;
        let Some(number) = self.named(name) else {
            return;
        };
        let node = &self.model.nodes[&number];
        if node.size <= u64::from(block) * size as u64 {
            self.grow(name);
            return;
        }
        if node.blocks.contains_key(&block) {
            return;
        }
        let fill = 1 + self.random.below(255) as u8;
        let extent = match self.fs.allocate(number, block, 1) {
            Err(Error::NoSpace) => return,
            result => result.unwrap(),
        };
        let at = extent.physical * size as u64;
        self.fs.device().write(at, &vec![fill; size]).unwrap();
        self.fs.mark_written(number, block, 1).unwrap();
        let node = self.model.nodes.get_mut(&number).unwrap();
        node.blocks.insert(block, fill);
        self.unsynced.insert(number);
    }

    /// Returns whether everything was committed: it must be if the file was changed since.
    fn sync(&mut self, name: &[u8]) -> bool {
        let Some(number) = self.named(name) else {
            return false;
        };
        let before = self.fs.device().record.as_ref().map_or(0, Vec::len);
        self.fs.sync_inode(number, false).unwrap();
        let events = self.fs.device().record.as_deref().unwrap_or_default();
        let committed = events
            .iter()
            .skip(before)
            .any(|event| matches!(event, Event::Write(..)));
        assert!(committed || !self.unsynced.contains(&number));
        if committed {
            self.unsynced.clear();
        }
        committed
    }

    fn replace(&mut self, name: &[u8], target: &[u8]) {
        let (Some(moved), there) = (self.named(name), self.named(target)) else {
            return;
        };
        let result = self.fs.rename(ROOT, name, ROOT, target, Rename::Replace);
        if matches!(result, Err(Error::NoSpace)) {
            return;
        }
        let lost = result.unwrap();
        assert_eq!(lost.as_ref().map(|lost| lost.number), there);
        let entries = &mut self.model.nodes.get_mut(&ROOT).unwrap().entries;
        entries.remove(name);
        entries.insert(target.to_vec(), moved);
        if let Some(lost) = lost {
            self.lose(&lost);
        }
    }

    /// Removes a name. The file stays open until the next is removed.
    fn remove_name(&mut self, name: &[u8]) {
        if self.named(name).is_none() {
            return;
        }
        let inode = self.fs.unlink(ROOT, name).unwrap();
        let root = self.model.nodes.get_mut(&ROOT).unwrap();
        root.entries.remove(name);
        self.lose(&inode);
    }

    fn lose(&mut self, inode: &ext4::Inode) {
        self.model.nodes.remove(&inode.number);
        if let Some(held) = self.held.replace(inode.number) {
            self.fs.evict(held).unwrap();
        }
    }

    fn cut_to(&mut self, name: &[u8], blocks: u32) {
        let size = self.fs.geometry().block_size as u64;
        let Some(number) = self.named(name) else {
            return;
        };
        self.fs.truncate(number, u64::from(blocks) * size).unwrap();
        let node = self.model.nodes.get_mut(&number).unwrap();
        node.size = u64::from(blocks) * size;
        node.blocks.retain(|block, _| *block < blocks);
        self.unsynced.insert(number);
    }
}
