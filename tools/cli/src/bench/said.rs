//! What `programs/crossings` prints.

use std::collections::BTreeMap;

use super::result::Row;

/// What the program said.
#[derive(Default)]
pub struct Said {
    /// What the kernel calls itself.
    pub kernel: String,
    pub rows: Vec<Row>,
    /// The rows' last tags and their operations, in the rows' order.
    pub marked: Vec<(String, Marked)>,
}

/// The phases of a row.
pub struct Marked {
    pub tag: u32,
    pub operations: u64,
}

/// The tags between one turn and the next: `TAGS_A_TURN` of programs/crossings.
const TAGS_A_TURN: u32 = 64;

impl Marked {
    /// The row's tags in the four turns of two CPUs.
    pub fn turns(&self) -> [u32; 4] {
        [0, 1, 2, 3].map(|turn| self.tag % TAGS_A_TURN + turn * TAGS_A_TURN)
    }
}

impl Said {
    /// Takes from the console what the program said, and leaves out what others did.
    pub fn parse(console: &str) -> Self {
        let mut said = Self::default();
        let mut places = BTreeMap::new();
        for line in console.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words.as_slice() {
                ["#", "kernel", names @ ..] => said.kernel = names.join(" "),
                ["#", "tag", tag, name, "operations", operations] => {
                    let (Ok(tag), Ok(operations)) = (tag.parse(), operations.parse()) else {
                        continue;
                    };
                    let place = *places.entry(name.to_string()).or_insert(said.marked.len());
                    let marked = (name.to_string(), Marked { tag, operations });
                    match said.marked.get_mut(place) {
                        Some(known) => *known = marked,
                        None => said.marked.push(marked),
                    }
                }
                [name, least, median, "ns", window @ ..] => said.rows.push(Row {
                    name: name.to_string(),
                    window: window.join(" "),
                    value: least.parse().ok(),
                    median: median.parse().ok(),
                    remark: None,
                }),
                [name, "-", "-", remark, window @ ..] => said.rows.push(Row {
                    name: name.to_string(),
                    window: window.join(" "),
                    value: None,
                    median: None,
                    remark: Some(remark.to_string()),
                }),
                _ => {}
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn the_programs_lines_are_understood() {
        let console = "[    0.1] noise\n# kernel Linux 6.12 #1 SMP\nnull_call 302.0 302.5 ns getppid, 4 included\n\
            # tag 1 null_call operations 6000\nid_read - - absent MRS\nfork - - errno-38 fork, exit\n\
            # tag 65 null_call operations 2000\n# done\n";
        let said = Said::parse(console);
        assert_eq!(said.kernel, "Linux 6.12 #1 SMP");
        assert_eq!(said.rows.len(), 3);
        assert_eq!(
            (said.rows[0].value, said.rows[0].median),
            (Some(302.0), Some(302.5))
        );
        assert_eq!(said.rows[0].window, "getppid, 4 included");
        assert_eq!(said.rows[1].remark.as_deref(), Some("absent"));
        assert_eq!(said.marked.len(), 1);
        assert_eq!(
            (said.marked[0].1.tag, said.marked[0].1.operations),
            (65, 2000)
        );
    }
}
