//! The plugin's `key=value` arguments.

use std::path::PathBuf;

/// The plugin's work besides counting.
#[derive(Debug, PartialEq)]
pub struct Options {
    /// Where the figures go.
    pub out: PathBuf,
    /// Whether all instructions are counted, not the special ones alone.
    pub instructions: bool,
    /// Whether the lines that kernel code touches are noted.
    pub lines: bool,
    /// The phase of which instructions are kept.
    pub trace: Option<Trace>,
    /// Whether instructions are counted by arm64's exception level too.
    pub levels: bool,
    /// Whether stretches with interrupts masked are noted, and nothing else is done.
    pub masked: bool,
    /// Whether the depths of stacks are noted, and nothing else is done.
    pub stack: bool,
}

/// The instructions to keep.
#[derive(Debug, PartialEq, Clone, Copy)]
pub struct Trace {
    /// The phase's tag; none for every phase but 0.
    pub tag: Option<u32>,
    /// How often the phase is let pass first.
    pub skip: u64,
    /// How many instructions are kept at most.
    pub limit: usize,
}

impl Trace {
    /// Whether this phase is kept, having been entered `before` times.
    pub fn keeps(&self, tag: u32, before: u64) -> bool {
        self.tag.map_or(tag != 0, |only| only == tag) && before == self.skip
    }
}

impl Options {
    /// Parses the arguments; the error is a sentence.
    pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut out = None;
        let mut options = Self {
            out: PathBuf::new(),
            instructions: true,
            lines: false,
            trace: None,
            levels: false,
            masked: false,
            stack: false,
        };
        let (mut tag, mut skip, mut limit) = (None, 1, 10_000);
        for word in words {
            let (key, value) = word
                .split_once('=')
                .ok_or(format!("{word}: not key=value"))?;
            let number = || {
                value
                    .parse::<u32>()
                    .map_err(|_| format!("{word}: not a number"))
            };
            let switch = || match value {
                "on" | "true" => Ok(true),
                "off" | "false" => Ok(false),
                _ => Err(format!("{word}: neither on nor off")),
            };
            match key {
                "out" => out = Some(PathBuf::from(value)),
                "instructions" => options.instructions = switch()?,
                "lines" => options.lines = switch()?,
                "levels" => options.levels = switch()?,
                "masked" => options.masked = switch()?,
                "stack" => options.stack = switch()?,
                "trace" if value == "any" => tag = Some(None),
                "trace" => tag = Some(Some(number()?)),
                "skip" => skip = number()?.into(),
                "limit" => limit = number()? as usize,
                _ => return Err(format!("{key}: no such option")),
            }
        }
        options.out = out.ok_or("out=FILE is needed")?;
        options.trace = tag.map(|tag| Trace { tag, skip, limit });
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options() {
        let words = "out=/tmp/x,instructions=off,lines=on,trace=7,skip=2,limit=50,levels=on,masked=on,stack=on";
        let options = Options::parse(words.split(',')).unwrap();
        assert_eq!(
            options,
            Options {
                out: "/tmp/x".into(),
                instructions: false,
                lines: true,
                trace: Some(Trace {
                    tag: Some(7),
                    skip: 2,
                    limit: 50
                }),
                levels: true,
                masked: true,
                stack: true,
            }
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (words, error) in [
            ("lines=on", "out=FILE is needed"),
            ("out=x,lines=yes", "lines=yes: neither on nor off"),
            ("out=x,trace=a", "trace=a: not a number"),
            ("out=x,line=on", "line: no such option"),
            ("out=x,lines", "lines: not key=value"),
        ] {
            assert_eq!(Options::parse(words.split(',')).unwrap_err(), error);
        }
    }
}
