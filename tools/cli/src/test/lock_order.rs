//! The table of locks in `docs/locking.md`: all locks that the source creates, and the orders that
//! checked kernels have seen (`/proc/lockdep`). With `STILE_BLESS` set, new ones are added to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use anyhow::{Context, Result};

/// The document with the table.
const DOCUMENT: &str = "docs/locking.md";
const BEGIN: &str = "<!-- lock order: begin -->\n";
const END: &str = "<!-- lock order: end -->\n";

/// The folders of the kernel's source, and the part that is in no machine.
const SOURCES: [&str; 2] = ["kernel/src", "kernel/machine/src"];
const HOST: &str = "kernel/machine/src/arch/host";
/// The calls that create a lock with a class.
const MAKERS: [&str; 5] = [
    "Mutex::new(",
    "Mutex::default(",
    "SleepMutex::new(",
    "SleepRwLock::new(",
    "SpaceLock::new(",
];
/// The attribute that creates the locks of a structure: their class has the line of this attribute.
const DERIVE: &str = "#[derive(";

/// Only one machine at a time changes the document.
static CHANGING: Mutex<()> = Mutex::new(());

/// A class of locks, identified by names in the source, since line numbers change with every edit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// Its path without `kernel/` and `src/`.
    file: String,
    /// The static, the field or the structure that holds the lock.
    name: String,
}

/// Classes, and which ones were taken while each was held.
#[derive(Default)]
struct Orders(BTreeMap<Class, BTreeSet<Class>>);

/// Compares the `/proc/lockdep` of a checked kernel with the document, or adds it there; returns
/// what the document lacks, and contradictions.
pub fn check(root: &Path, lockdep: &str) -> Result<Option<String>> {
    let learned = Orders::learned(root, lockdep)?;
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = root.join(DOCUMENT);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, table, after) = parts(&text).context("the table has lost its markers")?;
    let mut known = Orders::of_table(table);
    let blessed = env::var_os("STILE_BLESS").is_some();
    if blessed {
        known.keep_only(&made_in(root)?);
    }
    let complaints = known.add(&learned, blessed);
    if blessed && complaints.is_empty() {
        fs::write(&path, format!("{before}{known}{after}"))?;
    }
    Ok((!complaints.is_empty()).then(|| complaints.join("\n")))
}

/// The text before, in and after the table.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some((&text[..begin], &text[begin..end], &text[end..]))
}

/// The classes of all locks that the kernel's source creates, except those of its tests.
fn made_in(root: &Path) -> Result<BTreeSet<Class>> {
    let mut classes = BTreeSet::new();
    let mut folders = SOURCES.map(|folder| root.join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let file = path.strip_prefix(root)?.display().to_string();
            if path.is_dir() && file != HOST {
                folders.push(path);
            } else if file.ends_with(".rs") && !file.ends_with("/selftests.rs") {
                let source = fs::read_to_string(&path)?;
                let names = names_of_locks(&source);
                classes.extend(names.map(|name| Class::of(&file, name)));
            }
        }
    }
    Ok(classes)
}

/// The names of the locks that a file creates.
fn names_of_locks(source: &str) -> impl Iterator<Item = &str> {
    let tests = source.find("selftest! {").unwrap_or(source.len());
    let lines: Vec<_> = source[..tests].lines().collect();
    let makes = move |at: usize| {
        let line = lines[at];
        if line.starts_with(DERIVE) {
            let item = lines[at..].iter().take_while(|line| !line.is_empty());
            return line.contains("Default") && item.clone().any(|line| line.contains("Mutex<"));
        }
        let before = |at: usize| line[..at].chars().next_back();
        let mut makers = MAKERS.iter().filter_map(|maker| line.find(maker));
        !line.trim_start().starts_with("//")
            && makers.any(|at| before(at).is_none_or(|letter| !is_name(letter) && letter != ':'))
    };
    let count = source[..tests].lines().count();
    let lines = (0..count).filter(move |&at| makes(at));
    lines.filter_map(|at| name_of(source, at + 1))
}

impl Class {
    /// The class of the locks that a line `FILE:LINE` of the source creates.
    fn made_at(root: &Path, place: &str) -> Result<Self> {
        let (file, line) = place.rsplit_once(':').context("no line of source")?;
        let source = fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
        let name = name_of(&source, line.parse()?)
            .with_context(|| format!("{place}: what has this lock?"))?;
        Ok(Self::of(file, name))
    }

    fn of(path: &str, name: &str) -> Self {
        let path = path.strip_prefix("kernel/").unwrap_or(path);
        Class {
            file: path.replacen("src/", "", 1),
            name: name.to_owned(),
        }
    }

    /// The class in a cell of the table.
    fn of_cell(cell: &str) -> Option<Self> {
        let (file, name) = cell.trim().trim_matches('`').rsplit_once(' ')?;
        let (file, name) = (file.to_owned(), name.to_owned());
        Some(Class { file, name })
    }
}

impl Display for Class {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "`{} {}`", self.file, self.name)
    }
}

impl Orders {
    /// The orders of `/proc/lockdep`: lines `CLASS` and `OUTER -> INNER`.
    fn learned(root: &Path, lockdep: &str) -> Result<Self> {
        let mut orders = Self::default();
        let mut classes = BTreeMap::new();
        for line in lockdep.lines() {
            let mut of_line = Vec::new();
            for place in line.split(" -> ") {
                if !classes.contains_key(place) {
                    classes.insert(place, Class::made_at(root, place)?);
                }
                of_line.push(classes[place].clone());
            }
            let mut of_line = of_line.into_iter();
            let outer = of_line.next().context("an empty line")?;
            orders.0.entry(outer).or_default().extend(of_line);
        }
        Ok(orders)
    }

    /// The orders of the document.
    fn of_table(table: &str) -> Self {
        let mut orders = Self::default();
        for row in table.lines().filter(|line| line.starts_with("| `")) {
            let mut cells = row.trim_matches('|').split('|');
            if let Some(outer) = cells.next().and_then(Class::of_cell) {
                let inner = cells.next().into_iter().flat_map(|cell| cell.split(','));
                let inner = inner.filter_map(Class::of_cell);
                orders.0.entry(outer).or_default().extend(inner);
            }
        }
        orders
    }

    /// Removes all classes except these, and adds those of them that are missing.
    fn keep_only(&mut self, classes: &BTreeSet<Class>) {
        self.0.retain(|class, _| classes.contains(class));
        for inner in self.0.values_mut() {
            inner.retain(|class| classes.contains(class));
        }
        for class in classes {
            self.0.entry(class.clone()).or_default();
        }
    }

    /// Adds orders that were seen; returns those that contradict the existing ones, and unknown
    /// classes unless they are `welcome`.
    fn add(&mut self, learned: &Self, welcome: bool) -> Vec<String> {
        let mut complaints = Vec::new();
        for class in learned.0.keys() {
            if !welcome && !self.0.contains_key(class) {
                complaints.push(format!(
                    "{DOCUMENT} lacks the lock {class}: run this test with STILE_BLESS=1"
                ));
            }
            self.0.entry(class.clone()).or_default();
        }
        for (outer, all) in &learned.0 {
            for inner in all.iter().filter(|inner| *inner != outer) {
                if self.is_after(outer, inner) {
                    complaints.push(format!(
                        "{inner} is taken while {outer} is held: {DOCUMENT} has them the other way"
                    ));
                } else {
                    self.0
                        .entry(outer.clone())
                        .or_default()
                        .insert(inner.clone());
                }
            }
        }
        complaints
    }

    /// Whether `class` is taken while `first` is held, also indirectly.
    fn is_after(&self, class: &Class, first: &Class) -> bool {
        let mut reached = BTreeSet::from([first]);
        let mut next = vec![first];
        while let Some(from) = next.pop() {
            let inner = self.0.get(from).into_iter().flatten();
            next.extend(inner.filter(|inner| reached.insert(inner)));
        }
        reached.contains(class)
    }
}

impl Display for Orders {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("| lock | taken while it is held |\n| --- | --- |\n")?;
        for (outer, all) in &self.0 {
            let mut cell = String::new();
            for (place, inner) in all.iter().enumerate() {
                let comma = if place == 0 { "" } else { ", " };
                write!(cell, "{comma}{inner}")?;
            }
            writeln!(to, "| {outer} | {cell} |")?;
        }
        Ok(())
    }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The words of a text, including keywords.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter| !is_name(letter));
    words.filter(|word| !word.is_empty())
}

fn word_after<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    words(text).skip_while(|word| *word != keyword).nth(1)
}

/// The name of the lock that a line of the source, counted from 1, creates: the static, or the
/// nearest name before it.
fn name_of(source: &str, line: usize) -> Option<&str> {
    let mut rest = source.lines().skip(line - 1);
    if rest.next()?.starts_with(DERIVE) {
        return rest.find_map(|line| word_after(line, "struct"));
    }
    const NOT_NAMES: [&str; 11] = [
        "Arc", "Ok", "Sleep", "SleepRw", "Some", "Space", "const", "let", "mut", "new", "try_arc",
    ];
    let lines = source.lines().take(line).collect::<Vec<_>>();
    // A line that begins with the lock continues the one before.
    lines.iter().rev().take(3).find_map(|line| {
        word_after(line, "static").or_else(|| {
            let end = ["Mutex::", "Lock::"]
                .iter()
                .find_map(|lock| line.find(lock))
                .unwrap_or(line.len());
            words(&line[..end])
                .filter(|word| !NOT_NAMES.contains(word))
                .last()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_lock_of_the_source_and_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join(DOCUMENT)).unwrap();
        let known = Orders::of_table(parts(&text).unwrap().1);
        let known: BTreeSet<Class> = known.0.into_keys().collect();
        let made = made_in(&root).unwrap();
        let differ: Vec<_> = known.symmetric_difference(&made).collect();
        let names: Vec<_> = differ.iter().map(ToString::to_string).collect();
        assert!(
            names.is_empty(),
            "STILE_BLESS=1 ./stile test -checked: {names:?}"
        );
    }

    #[test]
    fn locks_are_found_where_they_are_made() {
        let source = "static A: Mutex<u8> = Mutex::new(0);\n// b: Mutex::new(0)\n    c: SpinMutex::new(0),\n    d: SleepMutex::new(0),\n    n: SleepRwLock::new(),\n    e: lock_api::Mutex::new(0),\nselftest! {\n static F: Mutex<u8> = Mutex::new(0);\n}";
        assert_eq!(names_of_locks(source).collect::<Vec<_>>(), ["A", "d", "n"]);
    }

    #[test]
    fn a_lock_is_called_as_what_holds_it() {
        for (source, name) in [
            (
                "pub(super) static POOL: Mutex<Pool> = Mutex::new(Pool {",
                "POOL",
            ),
            ("            changing: SleepMutex::new(()),", "changing"),
            ("            name: try_arc(Mutex::new(name))?,", "name"),
            (
                "        Ok(FdShare(try_arc(FdTable(Mutex::new(slots)))?))",
                "FdTable",
            ),
            ("    let inner = SpaceLock::new(inner)?;", "inner"),
            (
                "static INFLIGHT: SleepMutex<Graph> =\n    SleepMutex::new(Graph::new());",
                "INFLIGHT",
            ),
        ] {
            assert_eq!(name_of(source, source.lines().count()), Some(name));
        }
        let derived = "#[derive(Default)]\npub struct Link(Mutex<u8>);\n";
        assert_eq!(name_of(derived, 1), Some("Link"));
        assert_eq!(names_of_locks(derived).collect::<Vec<_>>(), ["Link"]);
    }

    #[test]
    fn an_order_whose_reverse_stands_there_is_refused_also_by_way_of_others() {
        let table = "| `a.rs A` | `b.rs B`, `c.rs C` |\n| `b.rs B` | `d.rs D` |\n| `d.rs D` |  |\n";
        let mut known = Orders::of_table(table);
        assert!(known.to_string().ends_with(table));
        let seen = |outer: &str, inner: &str| Orders::of_table(&format!("| {outer} | {inner} |"));
        assert!(known.add(&seen("`a.rs A`", "`d.rs D`"), false).is_empty());
        assert_eq!(known.add(&seen("`d.rs D`", "`a.rs A`"), false).len(), 1);
        assert_eq!(known.add(&seen("`e.rs E`", "`a.rs A`"), false).len(), 1);
        assert!(known.add(&seen("`f.rs F`", "`a.rs A`"), true).is_empty());
    }
}
