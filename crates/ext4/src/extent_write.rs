//! Changes extent trees.

use crate::bytes::{put16, put32};
use crate::extent::{
    ENTRY, Extent, LONGEST, LONGEST_UNWRITTEN, MAGIC, MOST_DEPTH, Node, Step, depth, entries,
    extent, key, room, set_extent,
};
use crate::inode::{Inode, MAP_SIZE, REGULAR, TYPE};
use crate::seal::Seal;
use crate::store::Kind;
use crate::{Device, Error, Fs, Result};

/// Makes `node` an empty node, `levels` levels above the leaves.
pub(crate) fn clear(node: &mut [u8], levels: u16) {
    node[..ENTRY].fill(0);
    put16(node, 0, MAGIC);
    put16(node, 4, ((node.len() - ENTRY) / ENTRY) as u16);
    put16(node, 6, levels);
}

fn set_entries(node: &mut [u8], count: usize) {
    put16(node, 2, count as u16);
}

fn set_index(node: &mut [u8], entry: usize, key: u32, child: u64) {
    let at = ENTRY + entry * ENTRY;
    put32(node, at, key);
    put32(node, at + 4, child as u32);
    put16(node, at + 8, (child >> 32) as u16);
    put16(node, at + 10, 0);
}

/// Makes room for an entry. If a node has none, another use of its block has changed it, which
/// happens only in a damaged image: it is left as it is, and the next check finds it.
fn open(node: &mut [u8], entry: usize) {
    let count = entries(node);
    let (at, end) = (ENTRY + entry * ENTRY, ENTRY + count * ENTRY);
    if at <= end && end + ENTRY <= node.len() {
        node.copy_within(at..end, at + ENTRY);
        set_entries(node, count + 1);
    }
}

/// Removes an entry, if it exists; see [`open`].
fn close(node: &mut [u8], entry: usize) {
    let count = entries(node);
    let (at, end) = (ENTRY + entry * ENTRY, ENTRY + count * ENTRY);
    if entry < count && end <= node.len() {
        node.copy_within(at + ENTRY..end, at);
        set_entries(node, count - 1);
    }
}

/// Merges two extents, if that is possible.
fn join(one: &Extent, other: &Extent) -> Option<Extent> {
    let most = if one.written {
        LONGEST
    } else {
        LONGEST_UNWRITTEN
    };
    let fits = one.written == other.written
        && one.end() == other.logical
        && one.physical + u64::from(one.length) == other.physical
        && one.length + other.length <= most;
    fits.then_some(Extent {
        length: one.length + other.length,
        ..*one
    })
}

impl<D: Device> Fs<D> {
    /// Changes a node and updates its checksum. The root is stored with its inode, by the caller.
    fn change_node(
        &mut self,
        inode: &mut Inode,
        node: Node,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        match node {
            Node::Root => change(inode.map_mut()),
            Node::Block(block) => {
                let seed = inode.seed(&self.geometry);
                self.note_change(inode.number, true)?;
                let (kind, seal) = (Kind::Extents(seed), Seal::Extents(seed));
                change(self.store.change_as(block, kind, Some(seal))?);
            }
        }
        Ok(())
    }

    /// Updates the entries above a node, which must begin where the node's first entry does.
    fn correct_keys(&mut self, inode: &mut Inode, path: &[Step]) -> Result<()> {
        for pair in path.windows(2).rev() {
            let [above, below] = pair else { break };
            let node = self.extent_node(inode, below.node)?;
            if entries(node) == 0 {
                continue;
            }
            let first = key(node, 0);
            if key(self.extent_node(inode, above.node)?, above.entry) != first {
                self.change_node(inode, above.node, |node| {
                    put32(node, ENTRY + above.entry * ENTRY, first);
                })?;
            }
        }
        Ok(())
    }

    /// Adds an extent, whose blocks must all be unmapped. The caller stores the inode.
    pub(crate) fn insert_extent(&mut self, inode: &mut Inode, new: Extent) -> Result<()> {
        // Each iteration makes room on one more level.
        for _ in 0..=usize::from(MOST_DEPTH) * 2 + 2 {
            let path = self.extent_path(inode, new.logical)?;
            let leaf = *path.last().ok_or(Error::Corrupt("extent tree"))?;
            let node = self.extent_node(inode, leaf.node)?;
            let count = entries(node);
            let behind = count > 0 && key(node, leaf.entry) <= new.logical;
            let at = leaf.entry + usize::from(behind);
            let left = at
                .checked_sub(1)
                .and_then(|left| join(&extent(node, left), &new));
            let both = left.unwrap_or(new);
            let right = (at < count)
                .then(|| join(&both, &extent(node, at)))
                .flatten();
            let full = count == room(node);
            match (left, right) {
                (None, None) if full => {
                    self.make_room(inode, &path)?;
                    continue;
                }
                (None, None) => self.change_node(inode, leaf.node, |node| {
                    open(node, at);
                    set_extent(node, at, &new);
                })?,
                (Some(left), None) => {
                    self.change_node(inode, leaf.node, |node| set_extent(node, at - 1, &left))?;
                }
                (None, Some(right)) => {
                    self.change_node(inode, leaf.node, |node| set_extent(node, at, &right))?;
                }
                (Some(_), Some(whole)) => self.change_node(inode, leaf.node, |node| {
                    set_extent(node, at - 1, &whole);
                    close(node, at);
                })?,
            }
            return self.correct_keys(inode, &path);
        }
        Err(Error::Corrupt("extent tree"))
    }

    /// Splits the uppermost full node at the end of the path, or adds a level below the root.
    fn make_room(&mut self, inode: &mut Inode, path: &[Step]) -> Result<()> {
        let goal = self.inode_goal(inode.number)?;
        for level in (0..path.len() - 1).rev() {
            let node = self.extent_node(inode, path[level].node)?;
            if entries(node) < room(node) {
                return self.split(inode, path[level], path[level + 1], goal);
            }
        }
        let root = crate::bytes::copy(inode.map())?;
        let levels = depth(&root);
        if levels >= MOST_DEPTH {
            return Err(Error::TooLarge);
        }
        let block = self.allocate_metadata(goal)?;
        inode.add_blocks(&self.geometry, 1)?;
        let count = entries(&root);
        self.change_node(inode, Node::Block(block), |node| {
            clear(node, levels);
            set_entries(node, count);
            node[ENTRY..MAP_SIZE].copy_from_slice(&root[ENTRY..]);
        })?;
        let map = inode.map_mut();
        clear(map, levels + 1);
        set_entries(map, 1);
        set_index(map, 0, key(&root, 0), block);
        Ok(())
    }

    /// Moves the second half of a full node to a new one. At the end of a growing file, only the
    /// last entry is moved, so that nodes become full.
    fn split(&mut self, inode: &mut Inode, above: Step, below: Step, goal: u64) -> Result<()> {
        let old = crate::bytes::copy(self.extent_node(inode, below.node)?)?;
        let count = entries(&old);
        let last = below.entry + 1 >= count;
        let kept = if last { count - 1 } else { count / 2 };
        let block = self.allocate_metadata(goal)?;
        inode.add_blocks(&self.geometry, 1)?;
        self.change_node(inode, Node::Block(block), |node| {
            clear(node, depth(&old));
            set_entries(node, count - kept);
            let moved = &old[ENTRY + kept * ENTRY..ENTRY + count * ENTRY];
            node[ENTRY..ENTRY + moved.len()].copy_from_slice(moved);
        })?;
        self.change_node(inode, below.node, |node| set_entries(node, kept))?;
        self.change_node(inode, above.node, |node| {
            open(node, above.entry + 1);
            set_index(node, above.entry + 1, key(&old, kept), block);
        })
    }

    /// Removes the entry of the leaf at the end of the path, and nodes that have become empty.
    fn remove_entry(&mut self, inode: &mut Inode, path: &[Step]) -> Result<()> {
        for (level, step) in path.iter().enumerate().rev() {
            self.change_node(inode, step.node, |node| close(node, step.entry))?;
            let empty = match step.node {
                Node::Root => {
                    let map = inode.map_mut();
                    if entries(map) == 0 {
                        clear(map, 0);
                    }
                    false
                }
                Node::Block(block) => entries(self.store.get(block)?) == 0,
            };
            let Node::Block(block) = step.node else { break };
            if !empty {
                return self.correct_keys(inode, &path[..=level]);
            }
            self.free_metadata(block)?;
            inode.add_blocks(&self.geometry, -1)?;
        }
        Ok(())
    }

    /// Removes the blocks from `from` to before `to` of an extent that contains them from the map,
    /// and returns them. The caller stores the inode.
    fn cut(&mut self, inode: &mut Inode, found: &Extent, from: u32, to: u32) -> Result<Extent> {
        let path = self.extent_path(inode, found.logical)?;
        let leaf = *path.last().ok_or(Error::Corrupt("extent tree"))?;
        let node = self.extent_node(inode, leaf.node)?;
        // If a damaged tree is not in order, the path leads to another extent.
        if leaf.entry >= entries(node) || extent(node, leaf.entry) != *found {
            return Err(Error::Corrupt("order of an extent tree"));
        }
        let part = |from: u32, to: u32| Extent {
            logical: from,
            length: to - from,
            physical: found.physical + u64::from(from - found.logical),
            written: found.written,
        };
        let (front, back) = (part(found.logical, from), part(to, found.end()));
        match (front.length, back.length) {
            (0, 0) => self.remove_entry(inode, &path)?,
            (0, _) => {
                self.change_node(inode, leaf.node, |node| set_extent(node, leaf.entry, &back))?;
                self.correct_keys(inode, &path)?;
            }
            _ => {
                self.change_node(inode, leaf.node, |node| {
                    set_extent(node, leaf.entry, &front)
                })?;
                if back.length > 0 {
                    self.insert_extent(inode, back)?;
                }
            }
        }
        Ok(part(from, to))
    }

    /// Frees the blocks of a file from `from` to before `to`, at most `most` extents of them.
    /// Returns whether none is left. The caller stores the inode.
    pub(crate) fn punch(
        &mut self,
        inode: &mut Inode,
        from: u32,
        to: u32,
        most: usize,
    ) -> Result<bool> {
        // Directories and symbolic links are metadata.
        let in_journal = inode.mode() & TYPE != REGULAR;
        for _ in 0..most {
            // An extent without blocks would make this loop endless.
            let Some(found) = self
                .find_extent(inode, from)?
                .filter(|found| from < to && found.logical < to)
            else {
                return Ok(true);
            };
            let end = found.end().min(to);
            let cut = self.cut(inode, &found, found.logical.max(from), end)?;
            self.free_blocks(cut.physical, cut.length)?;
            if in_journal {
                for block in cut.physical..cut.physical + u64::from(cut.length) {
                    self.store.forget(block)?;
                }
            }
            inode.add_blocks(&self.geometry, -i64::from(cut.length))?;
        }
        Ok(false)
    }

    /// Marks the blocks from `from` to before `to` as written or not, at most `most` extents of
    /// them. Returns where to continue. The caller stores the inode.
    pub(crate) fn convert(
        &mut self,
        inode: &mut Inode,
        mut from: u32,
        to: u32,
        written: bool,
        most: usize,
    ) -> Result<u32> {
        for _ in 0..most {
            let Some(found) = self
                .find_extent(inode, from)?
                .filter(|found| found.logical < to)
            else {
                return Ok(to);
            };
            let start = found.logical.max(from);
            // The longest written extent has one block more than the longest unwritten one.
            let longest = start.saturating_add(LONGEST_UNWRITTEN);
            let end = found.end().min(to).min(longest);
            if found.written != written {
                let cut = self.cut(inode, &found, start, end)?;
                self.insert_extent(inode, Extent { written, ..cut })?;
            }
            from = end;
        }
        Ok(from)
    }

    /// The preferred place for blocks of an inode: after the inodes of its group.
    pub(crate) fn inode_goal(&mut self, number: u32) -> Result<u64> {
        let (group, _) = self.inode_group(number);
        Ok(self.geometry.group_start(group))
    }
}
