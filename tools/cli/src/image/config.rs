//! An image's configuration: how its program is started.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The default search path of an image's programs.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Signals by number, from 1.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
const SIGTERM: u8 = 15;
/// The first and the last real-time signal of programs.
const REAL_TIME: (u8, u8) = (34, 64);

/// The document.
#[derive(Deserialize)]
pub struct Config {
    /// The architecture, as Go names it; for ours Debian's name is the same.
    pub architecture: String,
    os: String,
    #[serde(default)]
    config: Option<Settings>,
    /// The layers.
    pub rootfs: Rootfs,
}

/// Names the layers.
#[derive(Deserialize)]
pub struct Rootfs {
    /// The digests of their tar archives.
    pub diff_ids: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Settings {
    user: Option<String>,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
}

/// What the user asks for in place of the configuration.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// In place of the entry point; with it, the image's arguments do not count.
    pub entrypoint: Option<&'a [u8]>,
    /// In place of the image's arguments.
    pub arguments: &'a [Vec<u8>],
}

impl Config {
    /// Reads the document.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let config: Self = serde_json::from_slice(text)?;
        if config.os != "linux" {
            bail!("the image is for {:?}, not for Linux", config.os);
        }
        let settings = config.config.iter();
        let words = settings.flat_map(|settings| {
            let lists = [&settings.env, &settings.entrypoint, &settings.cmd];
            let texts = [&settings.user, &settings.working_dir];
            let lists = lists.into_iter().flatten().flatten();
            lists.chain(texts.into_iter().flatten())
        });
        // No argument of a program can, and jobs are lists of lines that end in one.
        if words.into_iter().any(|word| word.contains('\0')) {
            bail!("the configuration has a NUL in a text");
        }
        config.stop_signal()?;
        Ok(config)
    }

    /// The program and its arguments.
    pub fn command(&self, asked: Asked) -> Result<Vec<Vec<u8>>> {
        let words = |words: Option<&Vec<String>>| -> Vec<Vec<u8>> {
            let words = words.into_iter().flatten();
            words.map(|word| word.clone().into_bytes()).collect()
        };
        let settings = self.config.as_ref();
        let (mut command, own) = match asked.entrypoint {
            Some(program) => (vec![program.to_vec()], Vec::new()),
            None => (
                words(settings.and_then(|settings| settings.entrypoint.as_ref())),
                words(settings.and_then(|settings| settings.cmd.as_ref())),
            ),
        };
        command.retain(|word| !word.is_empty() || asked.entrypoint.is_none());
        match asked.arguments {
            [] => command.extend(own),
            arguments => command.extend_from_slice(arguments),
        }
        if command.is_empty() {
            bail!("the image names no program: name one after --");
        }
        Ok(command)
    }

    /// The environment.
    pub fn environment(&self) -> Vec<Vec<u8>> {
        let settings = self.config.iter();
        let env = settings.flat_map(|settings| settings.env.iter().flatten());
        let mut environment: Vec<Vec<u8>> = env
            .filter(|variable| variable.contains('='))
            .map(|variable| variable.clone().into_bytes())
            .collect();
        if !environment
            .iter()
            .any(|variable| variable.starts_with(b"PATH="))
        {
            environment.push(PATH.into());
        }
        environment
    }

    /// The user, as the configuration names it.
    pub fn user(&self) -> String {
        let user = self
            .config
            .as_ref()
            .and_then(|settings| settings.user.clone());
        user.unwrap_or_default()
    }

    /// The directory in which the program starts.
    pub fn directory(&self) -> String {
        let settings = self.config.as_ref();
        let directory = settings.and_then(|settings| settings.working_dir.as_deref());
        // It is relative to the root, whatever it begins with.
        format!("/{}", directory.unwrap_or_default().trim_start_matches('/'))
    }

    /// The signal that asks the program to end.
    pub fn stop_signal(&self) -> Result<u8> {
        let settings = self.config.as_ref();
        match settings.and_then(|settings| settings.stop_signal.as_deref()) {
            None | Some("") => Ok(SIGTERM),
            Some(text) => {
                signal(text).with_context(|| format!("the stop signal {text:?} is not a signal"))
            }
        }
    }
}

/// The number of a signal: `SIGTERM`, `TERM`, `15` or `SIGRTMIN+3`.
fn signal(text: &str) -> Option<u8> {
    let (first, last) = REAL_TIME;
    let valid = |number: &u8| (1..=last).contains(number);
    if let Ok(number) = text.parse() {
        return Some(number).filter(valid);
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    if let Some(above) = name.strip_prefix("RTMIN") {
        let above = match above {
            "" => 0,
            above => above.strip_prefix('+')?.parse().ok()?,
        };
        return first.checked_add(above).filter(valid);
    }
    let at = SIGNALS.iter().position(|signal| *signal == name)?;
    u8::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &str) -> Result<Config> {
        let text = format!(
            r#"{{"architecture":"arm64","os":"linux","config":{settings},"rootfs":{{"diff_ids":[]}}}}"#
        );
        Config::parse(text.as_bytes())
    }

    fn command(settings: &str, entrypoint: Option<&str>, arguments: &[&str]) -> String {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|word| (*word).into()).collect();
        let asked = Asked {
            entrypoint: entrypoint.map(str::as_bytes),
            arguments: &arguments,
        };
        match config(settings).unwrap().command(asked) {
            Ok(words) => String::from_utf8(words.join(&b' ')).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn arguments_replace_what_docker_replaces() {
        let both = r#"{"Entrypoint":["/e","-x"],"Cmd":["c"]}"#;
        assert_eq!(command(both, None, &[]), "/e -x c");
        assert_eq!(command(both, None, &["a", "b"]), "/e -x a b");
        assert_eq!(command(both, Some("sh"), &[]), "sh");
        assert_eq!(command(both, Some("sh"), &["a"]), "sh a");
        assert_eq!(command(both, Some(""), &["a"]), "a");
        assert_eq!(command(r#"{"Cmd":["c"]}"#, None, &["a"]), "a");
        for empty in ["null", "{}", r#"{"Cmd":null,"Entrypoint":[]}"#] {
            assert!(command(empty, None, &[]).contains("names no program"));
        }
    }

    #[test]
    fn settings() {
        let text = r#"{"User":"u:g","Env":["A=1","none"],"WorkingDir":"w","StopSignal":"SIGQUIT"}"#;
        let config = config(text).unwrap();
        assert_eq!(config.user(), "u:g");
        assert_eq!(config.directory(), "/w");
        assert_eq!(config.stop_signal().unwrap(), 3);
        assert_eq!(config.environment(), [b"A=1", PATH.as_bytes()]);
    }

    #[test]
    fn signals() {
        for (text, number) in [("SIGTERM", 15), ("int", 2), ("9", 9), ("SIGRTMIN+3", 37)] {
            assert_eq!(signal(text), Some(number), "{text}");
        }
        for wrong in ["0", "65", "SIG", "SIGNONE", "RTMIN+31", "RTMIN-1", "-1"] {
            assert_eq!(signal(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hostile_texts_are_refused() {
        assert!(config(r#"{"Env":["A=1\u0000argument x"]}"#).is_err());
        assert!(config(r#"{"User":"\u0000"}"#).is_err());
        assert!(config(r#"{"StopSignal":"X"}"#).is_err());
        assert!(Config::parse(br#"{"architecture":"arm64","os":"windows","rootfs":{}}"#).is_err());
    }
}
