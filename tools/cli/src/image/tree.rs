//! The tree that the layers of an image make together.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, bail};

use super::archive::{Attributes, Entry, Kind};

/// The beginning of names that say what a layer hides of those below it.
const HIDDEN: &[u8] = b".wh.";
/// The name of a file that hides all that is in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// The beginning of other names with which aufs keeps its own records.
const RECORD: &[u8] = b".wh..wh.";

/// The maximum memory of a tree, in bytes: that of some million files.
pub const MOST_MEMORY: usize = 512 << 20;

/// The maximum number of names in a directory: the time of mkfs.erofs grows with their square.
const MOST_IN_FOLDER: usize = 50_000;

/// The tree.
pub struct Tree {
    /// By path, so that a directory precedes what is in it.
    names: BTreeMap<Vec<u8>, Name>,
    nodes: Vec<Node>,
    /// The number of layers in it.
    layers: usize,
    /// The memory that it has taken, about.
    weight: usize,
}

/// A name.
struct Name {
    node: usize,
    /// The layer that it comes from.
    layer: usize,
}

/// What names lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is, never a hard link or a device.
    pub kind: Kind,
    /// The layer that has its content.
    pub layer: usize,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A path of the tree.
pub struct Place<'a> {
    /// The path.
    pub path: &'a [u8],
    /// What is there.
    pub node: &'a Node,
    /// The number of that node: several paths may have it.
    pub number: usize,
}

impl Tree {
    /// An empty directory.
    pub fn new() -> Self {
        let mut tree = Self {
            names: BTreeMap::new(),
            nodes: Vec::new(),
            layers: 0,
            weight: 0,
        };
        tree.set(Vec::new(), 0, folder());
        tree
    }

    /// Adds a layer on top.
    pub fn add(&mut self, entries: Vec<Entry>) -> Result<()> {
        let layer = self.layers;
        self.layers += 1;
        // What a layer hides is below it, in whatever order its entries are.
        let mut shown = Vec::new();
        for entry in entries {
            let (folder, name) = split(&entry.path);
            if name == OPAQUE {
                self.remove_below(folder);
            } else if entry.path.split(|&byte| byte == b'/').any(is_record) {
                continue;
            } else if let Some(hidden) = name.strip_prefix(HIDDEN) {
                if matches!(hidden, b"" | b"." | b"..") {
                    bail!("{:?} hides no name", text(&entry.path));
                }
                let hidden = join(folder, hidden);
                self.remove_below(&hidden);
                self.names.remove(&hidden);
            } else {
                shown.push(entry);
            }
        }
        for entry in shown {
            self.weight += entry.weight();
            self.show(layer, entry)?;
            if self.weight > MOST_MEMORY {
                bail!("there are too many files in the image");
            }
        }
        Ok(())
    }

    /// Refuses directories of too many names.
    pub fn check(&self) -> Result<()> {
        let mut counts = HashMap::new();
        for path in self.names.keys() {
            let (folder, _) = split(path);
            let count = counts.entry(folder).or_insert(0);
            *count += 1;
            if *count > MOST_IN_FOLDER {
                bail!("{:?} has more than {MOST_IN_FOLDER} names", text(folder));
            }
        }
        Ok(())
    }

    /// All paths, a directory before what is in it.
    pub fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.names.iter().map(|(path, name)| Place {
            path,
            node: &self.nodes[name.node],
            number: name.node,
        })
    }

    /// Adds an entry of a layer.
    fn show(&mut self, layer: usize, entry: Entry) -> Result<()> {
        let path = entry.path;
        let is_folder = entry.kind == Kind::Directory;
        if path.is_empty() && !is_folder {
            bail!("the root of a layer is not a directory");
        }
        self.open_folders(layer, &path)?;
        let node = match entry.kind {
            // Each machine has devices of its own there.
            Kind::Device if path.starts_with(b"dev/") => return Ok(()),
            Kind::Device => bail!("{:?} is a device", text(&path)),
            Kind::HardLink(target) => match self.names.get(&target) {
                Some(name) if self.nodes[name.node].kind != Kind::Directory => name.node,
                _ => bail!(
                    "{:?} is a hard link to {:?}, which is not a file of the image",
                    text(&path),
                    text(&target)
                ),
            },
            kind => {
                self.nodes.push(Node {
                    kind,
                    layer,
                    attributes: entry.attributes,
                });
                self.nodes.len() - 1
            }
        };
        if !is_folder {
            self.remove_below(&path);
        }
        self.names.insert(path, Name { node, layer });
        Ok(())
    }

    /// Makes sure that all directories above a path exist. A directory hides a link or a file of a
    /// lower layer, but not of its own.
    fn open_folders(&mut self, layer: usize, path: &[u8]) -> Result<()> {
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let above = &path[..at];
            match self.names.get(above) {
                Some(name) if self.nodes[name.node].kind == Kind::Directory => {}
                Some(name) if name.layer == layer => {
                    bail!(
                        "{:?} is below {:?}, which is not a directory",
                        text(path),
                        text(above)
                    )
                }
                _ => self.set(above.to_vec(), layer, folder()),
            }
        }
        Ok(())
    }

    fn set(&mut self, path: Vec<u8>, layer: usize, node: Node) {
        let name = Name {
            node: self.nodes.len(),
            layer,
        };
        self.weight += size_of::<Entry>() + path.len();
        self.nodes.push(node);
        self.names.insert(path, name);
    }

    /// Removes all names in a directory.
    fn remove_below(&mut self, folder: &[u8]) {
        let start = join(folder, b"");
        let below = self.names.range(start.clone()..);
        let below = below.map(|(path, _)| path);
        let below = below.filter(|path| !path.is_empty());
        let below: Vec<_> = match folder.is_empty() {
            true => below.cloned().collect(),
            false => below
                .take_while(|path| path.starts_with(&start))
                .cloned()
                .collect(),
        };
        for path in below {
            self.names.remove(&path);
        }
    }
}

fn is_record(name: &[u8]) -> bool {
    name.starts_with(RECORD)
}

/// A directory that no layer describes.
fn folder() -> Node {
    Node {
        kind: Kind::Directory,
        layer: 0,
        attributes: Attributes {
            mode: 0o755,
            ..Attributes::default()
        },
    }
}

/// The directory of a path, and the last name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder.is_empty() {
        true => name.to_vec(),
        false => [folder, b"/", name].concat(),
    }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry {
            path: path.into(),
            kind,
            attributes: Attributes::default(),
        }
    }

    fn file(path: &str) -> Entry {
        entry(path, Kind::File { at: 0, size: 0 })
    }

    fn names(layers: Vec<Vec<Entry>>) -> Result<String> {
        let mut tree = Tree::new();
        for layer in layers {
            tree.add(layer)?;
        }
        let shown = |place: Place| format!("{}@{}", text(place.path), place.node.layer);
        Ok(tree
            .places()
            .skip(1)
            .map(shown)
            .collect::<Vec<_>>()
            .join(" "))
    }

    #[test]
    fn upper_layers_add_replace_and_hide() {
        let lower = || {
            vec![
                file("a/x"),
                file("a/y"),
                file("a-b"),
                file("a0"),
                file("b/c/d"),
            ]
        };
        assert_eq!(
            names(vec![lower(), vec![file("a/.wh.x"), file("a-b")]]).unwrap(),
            "a@0 a-b@1 a/y@0 a0@0 b@0 b/c@0 b/c/d@0"
        );
        // A directory is hidden with all that is in it; its neighbours stay.
        assert_eq!(
            names(vec![lower(), vec![file(".wh.a"), file(".wh.b")]]).unwrap(),
            "a-b@0 a0@0"
        );
        // What the layer itself has stays, in whatever order.
        assert_eq!(
            names(vec![
                lower(),
                vec![file("a/z"), file("a/.wh..wh..opq"), file(".wh.b")]
            ])
            .unwrap(),
            "a@0 a-b@0 a/z@1 a0@0"
        );
        assert_eq!(
            names(vec![lower(), vec![file("n"), file(".wh..wh..opq")]]).unwrap(),
            "n@1"
        );
        assert_eq!(
            names(vec![vec![file(".wh..wh.plnk/1"), file(".wh..wh.aufs")]]).unwrap(),
            ""
        );
        // A file takes the place of a directory, and the reverse.
        assert_eq!(
            names(vec![lower(), vec![file("a"), file("a-b/n")]]).unwrap(),
            "a@1 a-b@0 a-b/n@1 a0@0 b@0 b/c@0 b/c/d@0"
        );
    }

    #[test]
    fn a_directory_over_a_directory_keeps_what_is_in_it() {
        let mut tree = Tree::new();
        tree.add(vec![file("a/x")]).unwrap();
        let mut folder = entry("a", Kind::Directory);
        folder.attributes.mode = 0o700;
        tree.add(vec![folder]).unwrap();
        let modes: Vec<_> = tree
            .places()
            .map(|place| place.node.attributes.mode)
            .collect();
        assert_eq!(modes, [0o755, 0o700, 0]);
    }

    #[test]
    fn a_directory_has_a_bounded_number_of_names() {
        let mut tree = Tree::new();
        let names = |count: usize| {
            (0..count)
                .map(|number| file(&format!("d/{number}")))
                .collect()
        };
        tree.add(names(MOST_IN_FOLDER)).unwrap();
        tree.check().unwrap();
        tree.add(names(MOST_IN_FOLDER + 1)).unwrap();
        assert!(
            tree.check()
                .unwrap_err()
                .to_string()
                .contains("\"d\" has more")
        );
    }

    #[test]
    fn names_of_one_file_stay_one() {
        let link = |path: &str, to: &str| entry(path, Kind::HardLink(to.into()));
        let mut tree = Tree::new();
        tree.add(vec![file("a"), link("b", "a")]).unwrap();
        tree.add(vec![file(".wh.a"), link("c", "b")]).unwrap();
        let numbers: Vec<_> = tree.places().skip(1).map(|place| place.number).collect();
        assert_eq!(numbers.len(), 2);
        assert_eq!(numbers[0], numbers[1]);
        for wrong in ["", "none", "d"] {
            let layer = vec![entry("d", Kind::Directory), link("l", wrong)];
            assert!(tree.add(layer).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hostile_entries_are_refused() {
        let link = || entry("l", Kind::Symlink(b"/etc".into()));
        for (wrong, why) in [
            (vec![link(), file("l/passwd")], "not a directory"),
            (vec![file("")], "the root"),
            (vec![entry("sda", Kind::Device)], "is a device"),
            (vec![file(".wh.")], "hides no name"),
            (vec![file("a/.wh...")], "hides no name"),
        ] {
            let error = names(vec![wrong]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        // Over a link of a lower layer there is a directory, not where the link leads.
        assert_eq!(
            names(vec![vec![link()], vec![file("l/x")]]).unwrap(),
            "l@0 l/x@1"
        );
        assert_eq!(
            names(vec![vec![entry("dev/null", Kind::Device)]]).unwrap(),
            "dev@0"
        );
    }
}
