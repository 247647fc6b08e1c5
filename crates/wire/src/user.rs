//! The user of a job, as the configuration of a container image names it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The largest number that names a user or a group.
const MOST: u32 = i32::MAX as u32;

/// A user with groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The first group.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// The home directory.
    pub home: String,
}

/// Resolves `USER[:GROUP]`, both names or numbers, by the lines of `/etc/passwd` and `/etc/group`.
/// No user is root. A number need not be in the files, but without a group its group is then 0. A
/// user has supplementary groups only if no group is named, as with Docker. The error is a message.
pub fn resolve(name: &str, passwd: &str, group: &str) -> Result<User, String> {
    let (user, named_group) = match name.split_once(':') {
        Some((user, group)) => (user, Some(group).filter(|group| !group.is_empty())),
        None => (name, None),
    };
    let user = if user.is_empty() { "0" } else { user };
    let mut found = User {
        home: "/".to_string(),
        ..User::default()
    };
    // NAME:PASSWORD:UID:GID:COMMENT:HOME:SHELL
    let known = passwd.lines().map(fields).find(|line| is(line, user));
    match &known {
        Some(line) => {
            found.uid =
                line_number(line, 2).ok_or_else(|| format!("the user {user} has no number"))?;
            found.gid = line_number(line, 3).unwrap_or_default();
            found.home = match line.get(5) {
                Some(home) if !home.is_empty() => home.to_string(),
                _ => found.home,
            };
        }
        None => {
            found.uid = number(user).ok_or_else(|| format!("there is no user {user}"))?;
        }
    }
    // NAME:PASSWORD:GID:USER,USER…
    let mut groups = group.lines().map(fields);
    if let Some(name) = named_group {
        found.gid = match groups.find(|line| is(line, name)) {
            Some(line) => line_number(&line, 2),
            None => number(name),
        }
        .ok_or_else(|| format!("there is no group {name}"))?;
    } else if let Some(user) = known.as_ref().and_then(|line| line.first()) {
        let has = |line: &Vec<&str>| {
            let members = line.get(3).copied().unwrap_or_default();
            members.split(',').any(|member| member == *user)
        };
        found.groups = groups
            .filter(has)
            .filter_map(|line| line_number(&line, 2))
            .collect();
    }
    Ok(found)
}

fn fields(line: &str) -> Vec<&str> {
    line.trim().split(':').collect()
}

/// Whether a line is about this name or number.
fn is(line: &[&str], name: &str) -> bool {
    let same = number(name).is_some_and(|number| line_number(line, 2) == Some(number));
    line.len() > 2 && (line[0] == name || same)
}

fn line_number(line: &[&str], at: usize) -> Option<u32> {
    number(line.get(at)?)
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= MOST)
}
