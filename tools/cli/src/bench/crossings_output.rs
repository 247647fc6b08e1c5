//! The output of `programs/crossings`.

use super::result::Row;

/// The program's output.
#[derive(Default)]
pub struct Parsed {
    /// The kernel's name and version.
    pub kernel: String,
    pub rows: Vec<Row>,
    /// The rows' tags and operations, in the order of the rows.
    pub marked: Vec<(String, Marked)>,
    /// Figures of several threads that take turns.
    pub several: Vec<Several>,
}

/// The phase of a row.
pub struct Marked {
    pub tag: u32,
    pub operations: u64,
}

/// A row in a process of several threads.
pub struct Several {
    pub threads: u32,
    pub name: String,
    /// The minimum of each turn's batches.
    pub values: Vec<f64>,
    /// The tags of the turns.
    pub tags: Vec<u32>,
    /// The number of operations in each turn.
    pub operations: u64,
}

impl Parsed {
    /// Extracts the program's output from the console, without that of others.
    pub fn parse(console: &str) -> Self {
        let mut parsed = Self::default();
        let mut threads = None;
        for line in console.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words.as_slice() {
                ["#", "kernel", names @ ..] => parsed.kernel = names.join(" "),
                ["#", "threads", number, "turn", _] => threads = number.parse().ok(),
                ["#", "tag", tag, name, "operations", operations] => {
                    let (Ok(tag), Ok(operations)) = (tag.parse(), operations.parse()) else {
                        continue;
                    };
                    match threads {
                        None => {
                            let marked = Marked { tag, operations };
                            parsed.marked.push((name.to_string(), marked));
                        }
                        Some(threads) => {
                            let row = parsed.several(threads, name);
                            row.tags.push(tag);
                            row.operations = operations;
                        }
                    }
                }
                [name, least, median, "ns", window @ ..] => match threads {
                    None => parsed.rows.push(Row {
                        name: name.to_string(),
                        window: window.join(" "),
                        value: least.parse().ok(),
                        median: median.parse().ok(),
                        remark: None,
                    }),
                    Some(threads) => parsed
                        .several(threads, name)
                        .values
                        .extend(least.parse::<f64>()),
                },
                [name, "-", "-", remark, window @ ..] if threads.is_none() => {
                    parsed.rows.push(Row {
                        name: name.to_string(),
                        window: window.join(" "),
                        value: None,
                        median: None,
                        remark: Some(remark.to_string()),
                    })
                }
                _ => {}
            }
        }
        parsed
    }

    /// The row with this number of threads; created when it is first named.
    fn several(&mut self, threads: u32, name: &str) -> &mut Several {
        let known = |row: &Several| row.threads == threads && row.name == name;
        let place = self.several.iter().position(known).unwrap_or_else(|| {
            self.several.push(Several {
                threads,
                name: name.into(),
                values: Vec::new(),
                tags: Vec::new(),
                operations: 0,
            });
            self.several.len() - 1
        });
        &mut self.several[place]
    }
}

#[cfg(test)]
mod tests {
    use super::Parsed;

    #[test]
    fn the_programs_lines_are_understood() {
        let console = "[    0.1] noise\n# kernel Linux 6.12 #1 SMP\nnull_call 302.0 302.5 ns getppid, 4 included\n\
            # tag 1 null_call operations 6000\nid_read - - absent MRS\nfork - - errno-38 fork, exit\n\
            # threads 2 turn 0\nnull_call 303.0 303.0 ns getppid, 4 included\n\
            # tag 5 null_call operations 2000\n# threads 2 turn 1\nnull_call 305.0 305.0 ns getppid\n\
            # tag 6 null_call operations 2000\n# done\n";
        let parsed = Parsed::parse(console);
        assert_eq!(parsed.kernel, "Linux 6.12 #1 SMP");
        assert_eq!(parsed.rows.len(), 3);
        assert_eq!(
            (parsed.rows[0].value, parsed.rows[0].median),
            (Some(302.0), Some(302.5))
        );
        assert_eq!(parsed.rows[0].window, "getppid, 4 included");
        assert_eq!(parsed.rows[1].remark.as_deref(), Some("absent"));
        assert_eq!(parsed.marked.len(), 1);
        assert_eq!(
            (parsed.marked[0].1.tag, parsed.marked[0].1.operations),
            (1, 6000)
        );
        let several = &parsed.several[..];
        assert_eq!(several.len(), 1);
        assert_eq!(several[0].tags, [5, 6]);
        assert_eq!(several[0].values, [303.0, 305.0]);
    }
}
