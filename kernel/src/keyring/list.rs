//! The files of keys in procfs: the keys that the reader may see (proc_keys(5)), and the quota that
//! each user has used (proc_key_users(5)).

use super::{Key, KeyRef, Kind, QUOTA, ROOT_QUOTA, USED, after, right};
use crate::errno::Result;
use crate::fs::seq_file::Text;
use crate::put;
use crate::task::{clock, current, sched};
use alloc::sync::Arc;

/// Writes the line of the next key that the reader may see; places are key numbers.
pub fn keys(place: u64, text: &mut Text) -> Result<Option<u64>> {
    let rings = super::rings(&current())?;
    let mut from = place as i32;
    while let Some((serial, key)) = after(from) {
        sched::cond_resched_killable()?;
        from = serial + 1;
        let seen = |key: &KeyRef| key.check(right::VIEW).is_ok();
        let key = key.map(|key| KeyRef::known(key, &rings)).transpose()?;
        if let Some(key) = key.filter(seen) {
            key.list(text);
            return Ok(Some(from as u64));
        }
    }
    Ok(None)
}

impl Key {
    /// Its number, state, references, time, permissions, owner, kind, description and size.
    fn list(self: &Arc<Self>, text: &mut Text) {
        let state = self.state.lock();
        let flag = |is: bool, letter: char| if is { letter } else { '-' };
        let (revoked, negative) = (flag(state.revoked, 'R'), flag(state.negative, 'N'));
        let invalidated = flag(state.invalidated, 'i');
        let holders = Arc::strong_count(self) - 1;
        put!(
            text,
            "{:08x} I{revoked}-Q-{negative}{invalidated} {holders:5} ",
            self.serial
        );
        put_time(state.expires, text);
        let (user, group) = state.owner;
        let (permissions, kind) = (state.permissions, self.kind.name());
        put!(text, " {permissions:08x} {user:5} {group:5} {kind:<9} ");
        text.push(&self.description);
        match self.kind {
            _ if state.negative => put!(text, "\n"),
            Kind::Keyring if state.links.is_empty() => put!(text, ": empty\n"),
            Kind::Keyring => put!(text, ": {}\n", state.links.len()),
            Kind::Big => put!(text, ": {} [buff]\n", state.payload.len()),
            _ => put!(text, ": {}\n", state.payload.len()),
        }
    }
}

/// Writes the time until `time`, in ns of CLOCK_MONOTONIC, in the largest unit; 0 means never.
fn put_time(time: u64, text: &mut Text) {
    const UNITS: [(u64, char); 5] = [
        (604_800, 'w'),
        (86_400, 'd'),
        (3600, 'h'),
        (60, 'm'),
        (1, 's'),
    ];
    let left = time.saturating_sub(clock::monotonic_ns()) / clock::SECOND;
    let unit = UNITS.into_iter().find(|(seconds, _)| left >= *seconds);
    match unit {
        _ if time == 0 => put!(text, "perm"),
        None => put!(text, "expd"),
        Some((seconds, letter)) => put!(text, "{:3}{letter}", left / seconds),
    }
}

/// Writes the line of the next user: the number of keys and bytes, with their limits.
pub fn users(place: u64, text: &mut Text) -> Result<Option<u64>> {
    let Ok(from) = u32::try_from(place) else {
        return Ok(None);
    };
    let used = USED.lock();
    let next = used.range(from..).find(|(_, used)| used.0 > 0);
    let Some((user, (keys, bytes))) = next.map(|(&user, &used)| (user, used)) else {
        return Ok(None);
    };
    drop(used);
    let (most_keys, most_bytes) = if user == 0 { ROOT_QUOTA } else { QUOTA };
    put!(
        text,
        "{user:5}: {keys:5} {keys}/{keys} {keys}/{most_keys} {bytes}/{most_bytes}\n"
    );
    Ok(Some(u64::from(user) + 1))
}
