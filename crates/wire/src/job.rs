//! Jobs: the programs for PID 1 to run, as text of NUL-terminated lines `key value`, each job
//! closed by a line `end`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The source of a job's standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Nothing: end-of-file at once.
    #[default]
    Empty,
    /// The channel, through a pipe.
    Channel,
    /// The channel, through a pseudo-terminal of this size, which standard output uses as well.
    Terminal {
        /// The rows of the terminal.
        rows: u16,
        /// The columns of the terminal.
        columns: u16,
        /// Whether standard error uses the terminal, too.
        stderr: bool,
    },
    /// A file of the guest.
    File(String),
}

/// One program to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The program and its arguments; a name without a slash is looked up in `PATH`.
    pub arguments: Vec<Vec<u8>>,
    /// The environment, as `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    /// The working directory; the root if empty.
    pub directory: String,
    /// Standard input.
    pub input: Input,
    /// Count the job's crossings and report them at its end.
    pub count: bool,
    /// Trace the job's system calls.
    pub trace: bool,
    /// The user, as a container image names it ([`crate::user::resolve`]). Then `HOME` is set, and
    /// the working directory is made if it is missing.
    pub user: Option<String>,
    /// Wait before the job until the kernel's own work after its start is finished.
    pub settle: bool,
}

/// Encodes `jobs` as text. Values must not contain NUL, as no argument of a program does.
pub fn encode(jobs: &[Job]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut line = |key: &str, value: &[u8]| {
        out.extend_from_slice(key.as_bytes());
        if !value.is_empty() {
            out.push(b' ');
            out.extend_from_slice(value);
        }
        out.push(0);
    };
    for job in jobs {
        job.arguments
            .iter()
            .for_each(|value| line("argument", value));
        job.environment
            .iter()
            .for_each(|value| line("environment", value));
        line("directory", job.directory.as_bytes());
        match &job.input {
            Input::Empty => {}
            Input::Channel => line("channel", b""),
            Input::Terminal {
                rows,
                columns,
                stderr,
            } => {
                line("rows", rows.to_string().as_bytes());
                line("columns", columns.to_string().as_bytes());
                line("terminal", if *stderr { b"stderr" } else { b"" });
            }
            Input::File(path) => line("file", path.as_bytes()),
        }
        if job.count {
            line("count", b"");
        }
        if job.trace {
            line("trace", b"");
        }
        if job.settle {
            line("settle", b"");
        }
        if let Some(user) = &job.user {
            line("user", user.as_bytes());
        }
        line("end", b"");
    }
    out
}

/// Decodes jobs from text; the error is the invalid line.
pub fn decode(text: &[u8]) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    let mut job = Job::default();
    let (mut rows, mut columns) = (0, 0);
    for line in text.split_inclusive(|&byte| byte == 0) {
        let line = line.strip_suffix(&[0]).unwrap_or(line);
        let space = line.iter().position(|&byte| byte == b' ');
        let (key, value) = match space {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        let number = || {
            text()
                .parse()
                .map_err(|_| String::from_utf8_lossy(line).into_owned())
        };
        match key {
            b"argument" => job.arguments.push(value.to_vec()),
            b"environment" => job.environment.push(value.to_vec()),
            b"directory" => job.directory = text(),
            b"channel" => job.input = Input::Channel,
            b"rows" => rows = number()?,
            b"columns" => columns = number()?,
            b"terminal" => {
                job.input = Input::Terminal {
                    rows,
                    columns,
                    stderr: value == b"stderr",
                }
            }
            b"file" => job.input = Input::File(text()),
            b"count" => job.count = true,
            b"trace" => job.trace = true,
            b"settle" => job.settle = true,
            b"user" => job.user = Some(text()),
            b"end" => jobs.push(core::mem::take(&mut job)),
            _ => return Err(String::from_utf8_lossy(line).into_owned()),
        }
    }
    Ok(jobs)
}
