//! A model of a file system, and random operations on both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ext4::{Device as _, Error, Fs, Inode, New, ROOT, Rename};

use super::{Disk, Random};

#[derive(Clone, Default)]
pub struct Node {
    pub mode: u16,
    pub names: usize,
    pub size: u64,
    pub target: Vec<u8>,
    /// The byte with which each written block is filled.
    pub blocks: BTreeMap<u32, u8>,
    pub entries: BTreeMap<Vec<u8>, u32>,
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Node {
    pub fn is_directory(&self) -> bool {
        self.mode >> 12 == 4
    }
}

/// What a file system should hold, by the numbers that it gave.
#[derive(Clone)]
pub struct Model {
    pub nodes: BTreeMap<u32, Node>,
}

fn line(text: &mut String, path: &str, node: &Node) {
    let links = if node.is_directory() { 0 } else { node.names };
    write!(text, "{path} {:o} {links} {}", node.mode, node.size).unwrap();
    write!(text, " {:?}", String::from_utf8_lossy(&node.target)).unwrap();
    for (block, fill) in &node.blocks {
        write!(text, " {block}={fill}").unwrap();
    }
    for (name, value) in &node.attributes {
        write!(
            text,
            " {}:{}:{:?}",
            String::from_utf8_lossy(name),
            value.len(),
            value.first()
        )
        .unwrap();
    }
    text.push('\n');
}

impl Model {
    pub fn new() -> Self {
        let root = Node {
            mode: 0o040755,
            ..Node::default()
        };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
        }
    }

    /// All of it as text, by paths.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        let mut left = vec![(String::new(), ROOT)];
        while let Some((path, number)) = left.pop() {
            for (name, child) in &self.nodes[&number].entries {
                let path = format!("{path}/{}", String::from_utf8_lossy(name));
                line(&mut text, &path, &self.nodes[child]);
                if self.nodes[child].is_directory() {
                    left.push((path, *child));
                }
            }
        }
        text
    }
}

/// The same of a mounted file system, without lost+found.
pub fn dump(fs: &mut Fs<Disk>) -> Result<String, Error> {
    let mut text = String::new();
    let mut left = vec![(String::new(), ROOT)];
    while let Some((path, number)) = left.pop() {
        let directory = fs.inode(number)?;
        let mut entries = BTreeMap::new();
        fs.read_directory(&directory, 0, |entry| {
            if !matches!(entry.name, b"." | b".." | b"lost+found") {
                entries.insert(entry.name.to_vec(), entry.inode);
            }
            true
        })?;
        for (name, child) in entries {
            assert_eq!(fs.lookup(&directory, &name)?, child, "{name:?}");
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            let node = read_node(fs, child)?;
            line(&mut text, &path, &node);
            if node.is_directory() {
                left.push((path, child));
            }
        }
    }
    Ok(text)
}

fn read_node(fs: &mut Fs<Disk>, number: u32) -> Result<Node, Error> {
    let inode = fs.inode(number)?;
    let size = fs.geometry().block_size;
    let mut node = Node {
        mode: inode.mode(),
        names: usize::from(inode.links()),
        ..Node::default()
    };
    match inode.mode() >> 12 {
        0o12 => node.target = fs.read_link(&inode)?,
        0o10 => {
            node.size = inode.size();
            let mut at = 0;
            while let Some(block) = fs.next_mapped(&inode, at)? {
                let extent = fs.map(&inode, block)?.unwrap();
                for block in extent.logical..extent.end() {
                    let mut content = vec![0; size];
                    let physical = extent.physical + u64::from(block - extent.logical);
                    fs.device().read(physical * size as u64, &mut content)?;
                    if extent.written {
                        let whole = content.iter().all(|byte| *byte == content[0]);
                        assert!(whole, "{number} {block}");
                        node.blocks.insert(block, content[0]);
                    }
                }
                at = extent.end();
            }
        }
        _ => {}
    }
    let mut names = Vec::new();
    fs.attributes(&inode, |prefix, name| names.push([prefix, name].concat()))?;
    for name in names {
        let value = fs.attribute(&inode, &name)?;
        node.attributes.insert(name, value);
    }
    Ok(node)
}

/// A file system and the model of it.
pub struct Pair {
    pub fs: Fs<Disk>,
    pub model: Model,
    pub random: Random,
    /// Names are that long at most.
    pub longest: usize,
    /// An inode without a name that is open.
    pub held: Option<u32>,
    /// Files that were changed since the last sync that committed.
    pub unsynced: BTreeSet<u32>,
}

impl Pair {
    pub fn new(fs: Fs<Disk>, seed: u64) -> Self {
        Self {
            fs,
            model: Model::new(),
            random: Random(seed),
            longest: 40,
            held: None,
            unsynced: BTreeSet::new(),
        }
    }

    fn pick(&mut self, wanted: impl Fn(&Node) -> bool) -> Option<u32> {
        let all: Vec<u32> = self
            .model
            .nodes
            .iter()
            .filter(|(_, node)| wanted(node))
            .map(|(number, _)| *number)
            .collect();
        if all.is_empty() {
            None
        } else {
            Some(all[self.random.below(all.len())])
        }
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(60);
        let length = 4 + number * 37 % self.longest;
        format!("{number:03}-{}", "n".repeat(length)).into_bytes()
    }

    fn directory(&mut self) -> u32 {
        self.pick(Node::is_directory).unwrap()
    }

    /// An existing name, if the picked directory has one.
    fn existing(&mut self) -> Option<(u32, Vec<u8>, u32)> {
        let directory = self.pick(|node| !node.entries.is_empty())?;
        let entries = &self.model.nodes[&directory].entries;
        let at = self.random.below(entries.len());
        let (name, number) = entries.iter().nth(at)?;
        Some((directory, name.clone(), *number))
    }

    fn drop_name(&mut self, inode: &Inode) {
        let node = self.model.nodes.get_mut(&inode.number).unwrap();
        node.names -= 1;
        if node.names == 0 {
            self.fs.evict(inode.number).unwrap();
            self.model.nodes.remove(&inode.number);
        }
    }

    fn create(&mut self) {
        let (parent, name) = (self.directory(), self.name());
        let kind = self.random.below(8);
        let target = vec![b't'; 1 + self.random.below(120)];
        let (mode, target): (u16, &[u8]) = match kind {
            0 | 1 => (0o040750, &[]),
            2 => (0o120777, &target),
            3 => (0o010600, &[]),
            _ => (0o100640, &[]),
        };
        let result = self.fs.create(
            parent,
            &name,
            New {
                mode,
                target,
                ..New::default()
            },
        );
        if self.model.nodes[&parent].entries.contains_key(&name) {
            assert_eq!(result.unwrap_err(), Error::Exists);
            return;
        }
        match result {
            Err(Error::NoSpace) => {}
            result => {
                let inode = result.unwrap();
                let node = Node {
                    mode,
                    names: 1,
                    target: target.to_vec(),
                    ..Node::default()
                };
                assert!(self.model.nodes.insert(inode.number, node).is_none());
                let parent = self.model.nodes.get_mut(&parent).unwrap();
                parent.entries.insert(name, inode.number);
            }
        }
    }

    fn link(&mut self) {
        let Some(number) = self.pick(|node| !node.is_directory()) else {
            return;
        };
        let (parent, name) = (self.directory(), self.name());
        let result = self.fs.link(number, parent, &name);
        if self.model.nodes[&parent].entries.contains_key(&name) {
            assert_eq!(result.unwrap_err(), Error::Exists);
        } else if !matches!(result, Err(Error::NoSpace)) {
            result.unwrap();
            self.model.nodes.get_mut(&number).unwrap().names += 1;
            self.model
                .nodes
                .get_mut(&parent)
                .unwrap()
                .entries
                .insert(name, number);
        }
    }

    fn remove(&mut self) {
        let Some((parent, name, number)) = self.existing() else {
            return;
        };
        let node = &self.model.nodes[&number];
        if node.is_directory() {
            assert_eq!(
                self.fs.unlink(parent, &name).unwrap_err(),
                Error::IsDirectory
            );
            let result = self.fs.rmdir(parent, &name);
            if !node.entries.is_empty() {
                assert_eq!(result.unwrap_err(), Error::NotEmpty);
                return;
            }
            let inode = result.unwrap();
            self.model
                .nodes
                .get_mut(&parent)
                .unwrap()
                .entries
                .remove(&name);
            self.drop_name(&inode);
        } else {
            let inode = self.fs.unlink(parent, &name).unwrap();
            self.model
                .nodes
                .get_mut(&parent)
                .unwrap()
                .entries
                .remove(&name);
            self.drop_name(&inode);
        }
    }

    fn is_below(&self, number: u32, above: u32) -> bool {
        let mut left = vec![above];
        while let Some(at) = left.pop() {
            if at == number {
                return true;
            }
            left.extend(self.model.nodes[&at].entries.values());
        }
        false
    }

    fn rename(&mut self) {
        let Some((from, name, moved)) = self.existing() else {
            return;
        };
        let (to, new) = (self.directory(), self.name());
        let how = [
            Rename::Replace,
            Rename::Replace,
            Rename::NoReplace,
            Rename::Exchange,
        ];
        let how = how[self.random.below(4)];
        let there = self.model.nodes[&to].entries.get(&new).copied();
        let result = self.fs.rename(from, &name, to, &new, how);
        let is_directory = |number: u32| self.model.nodes[&number].is_directory();
        let full = |number: u32| !self.model.nodes[&number].entries.is_empty();
        let loops = is_directory(moved) && self.is_below(to, moved);
        let expected = match there {
            _ if loops => Some(Error::Invalid),
            None if how == Rename::Exchange => Some(Error::NotFound),
            Some(_) if how == Rename::NoReplace => Some(Error::Exists),
            Some(there) if there == moved => None,
            Some(there) if how == Rename::Exchange => {
                (is_directory(there) && self.is_below(from, there)).then_some(Error::Invalid)
            }
            Some(there) => match (is_directory(moved), is_directory(there)) {
                (true, false) => Some(Error::NotDirectory),
                (false, true) => Some(Error::IsDirectory),
                (true, true) if full(there) => Some(Error::NotEmpty),
                _ => None,
            },
            None => None,
        };
        if let Some(expected) = expected {
            assert_eq!(result.unwrap_err(), expected);
            return;
        }
        if matches!(result, Err(Error::NoSpace)) || there == Some(moved) {
            return;
        }
        let lost = result.unwrap();
        self.model
            .nodes
            .get_mut(&to)
            .unwrap()
            .entries
            .insert(new.clone(), moved);
        let source = &mut self.model.nodes.get_mut(&from).unwrap().entries;
        match (how, there) {
            (Rename::Exchange, Some(there)) => _ = source.insert(name, there),
            _ => _ = source.remove(&name),
        }
        if let Some(lost) = lost {
            assert_eq!(Some(lost.number), there);
            self.drop_name(&lost);
        }
    }

    /// Writes blocks that are not there yet, as a page cache does: place, data, map, size.
    fn write(&mut self) {
        let Some(number) = self.pick(|node| node.mode >> 12 == 0o10) else {
            return;
        };
        let size = self.fs.geometry().block_size;
        let start = self.random.below(200) as u32;
        let fill = 1 + self.random.below(255) as u8;
        for block in start..start + 1 + self.random.below(12) as u32 {
            if self.model.nodes[&number].blocks.contains_key(&block) {
                return;
            }
            let extent = match self.fs.allocate(number, block, 1) {
                Err(Error::NoSpace) => return,
                result => result.unwrap(),
            };
            assert!(!extent.written);
            let at = extent.physical * size as u64;
            self.fs.device().write(at, &vec![fill; size]).unwrap();
            let end = (u64::from(block) + 1) * size as u64;
            let node = self.model.nodes.get_mut(&number).unwrap();
            // The size comes first, so that no block is behind the end.
            if end > node.size {
                self.fs.extend(number, end).unwrap();
                node.size = end;
            }
            match self.fs.mark_written(number, block, 1) {
                Err(Error::NoSpace) => return,
                result => result.unwrap(),
            }
            node.blocks.insert(block, fill);
        }
    }

    fn truncate(&mut self) {
        let Some(number) = self.pick(|node| node.mode >> 12 == 0o10) else {
            return;
        };
        let size = self.fs.geometry().block_size as u64;
        let blocks = self.random.below(220) as u32;
        if self.random.below(3) == 0 {
            let node = &self.model.nodes[&number];
            if u64::from(blocks) * size < node.size {
                match self.fs.punch_hole(number, blocks, 5) {
                    Err(Error::NoSpace) => return,
                    result => result.unwrap(),
                }
                let node = self.model.nodes.get_mut(&number).unwrap();
                node.blocks
                    .retain(|block, _| !(blocks..blocks + 5).contains(block));
            }
            return;
        }
        self.fs.truncate(number, u64::from(blocks) * size).unwrap();
        let node = self.model.nodes.get_mut(&number).unwrap();
        node.size = u64::from(blocks) * size;
        node.blocks.retain(|block, _| *block < blocks);
    }

    pub fn attribute(&mut self) {
        let Some(number) = self.pick(|node| node.mode >> 12 != 0o12) else {
            return;
        };
        if number == ROOT {
            return;
        }
        let name = format!("user.{}", "x".repeat(1 + self.random.below(6))).into_bytes();
        let node = self.model.nodes.get_mut(&number).unwrap();
        if self.random.below(3) == 0 {
            let result = self.fs.set_attribute(number, &name, None);
            match node.attributes.remove(&name) {
                Some(_) if result == Err(Error::NoSpace) => panic!("no space to remove"),
                Some(_) => result.unwrap(),
                None => assert_eq!(result, Err(Error::NotFound)),
            }
            return;
        }
        let value = vec![self.random.below(256) as u8; self.random.below(300)];
        match self.fs.set_attribute(number, &name, Some(&value)) {
            Err(Error::NoSpace) => {}
            result => {
                result.unwrap();
                node.attributes.insert(name, value);
            }
        }
    }

    /// One random operation. Returns whether it was a commit.
    pub fn step(&mut self) -> bool {
        match self.random.below(30) {
            0..=9 => self.create(),
            10 | 11 => self.link(),
            12..=14 => self.remove(),
            15..=17 => self.rename(),
            18..=22 => self.write(),
            23 | 24 => self.truncate(),
            25 | 26 => self.attribute(),
            27 => {
                self.fs.commit().unwrap();
                return true;
            }
            _ => self.create(),
        }
        false
    }
}
