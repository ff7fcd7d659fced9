//! Mutations of event streams and of lines, in addition to the fuzzer's own: whole events are
//! dropped, repeated, moved and cut.

use libfuzzer_sys::fuzzer_mutate;

use crate::random::Random;

/// Changes `data`, whose first `size` bytes are in use. Returns the new size.
pub fn mutate(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate_parts(data, size, max, seed, events)
}

/// Changes `data` like [`mutate`], line by line.
pub fn mutate_lines(data: &mut [u8], size: usize, max: usize, seed: u32) -> usize {
    mutate_parts(data, size, max, seed, |bytes| {
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    })
}

fn mutate_parts(
    data: &mut [u8],
    size: usize,
    max: usize,
    seed: u32,
    split: impl Fn(&[u8]) -> Vec<Vec<u8>>,
) -> usize {
    let mut random = Random::new(u64::from(seed) << 1);
    let mut events = split(&data[..size]);
    if random.below(3) == 0 || events.len() < 2 {
        return fuzzer_mutate(data, size, max);
    }
    let (a, b) = (random.below(events.len()), random.below(events.len()));
    match random.below(5) {
        0 => drop(events.remove(a)),
        1 => events.insert(b, events[a].clone()),
        2 => events.swap(a, b),
        3 => events.truncate(a + 1),
        _ => {
            let mut event = events[a].clone();
            let size = event.len();
            event.resize(size + 64, 0);
            let size = fuzzer_mutate(&mut event, size, size + 64);
            event.truncate(size);
            events[a] = event;
        }
    }
    let changed = events.concat();
    let size = changed.len().min(max);
    data[..size].copy_from_slice(&changed[..size]);
    size
}

/// Returns the events unchanged, each with its blank line.
fn events(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut events = vec![Vec::new()];
    let mut blank = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if blank && !line.trim_ascii().is_empty() {
            events.push(Vec::new());
        }
        blank = line.trim_ascii().is_empty();
        if let Some(event) = events.last_mut() {
            event.extend_from_slice(line);
        }
    }
    events
}
