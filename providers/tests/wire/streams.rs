//! All recorded streams, split and truncated in many ways.

use std::time::SystemTime;

use crate::formats::{FORMATS, Format};
use crate::random::Random;
use crate::recordings::{Recording, recordings, verdict};
use crate::reply::Reply;

/// The number of random splits, and of random truncations, per stream.
const SPLITS: usize = 24;

#[test]
fn every_stream_gives_the_expected_reply_however_it_is_delivered() {
    let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64);
    let seed = Random::given_seed().unwrap_or_else(now);
    println!("LOOPWRIGHT_SEED={seed}");
    let mut random = Random::new(seed);
    for format in FORMATS {
        let (recordings, mut wrong) =
            (recordings(&format!("wire/{}", format.name), "sse"), Vec::new());
        for recording in &recordings {
            let checked = check(format, recording, &mut random);
            match &checked {
                Ok(line) => println!("ok    {}/{}: {line}", format.name, recording.name),
                Err(why) => wrong.push(format!("WRONG {}/{}: {why}", format.name, recording.name)),
            }
        }
        verdict(&format!("{} streams", format.name), recordings.len(), &wrong);
    }
}

/// Returns a line about the recording, or its failures.
fn check(format: &Format, recording: &Recording, random: &mut Random) -> Result<String, String> {
    let bytes = recording.bytes.as_slice();
    let whole = Reply::read(format, [bytes])?;
    let wrong = whole.differs(format, &recording.about["expected"]);
    if !wrong.is_empty() {
        return Err(wrong.join("\n  "));
    }
    let same = |how: &str, got: Result<Reply, String>| match got {
        Ok(got) if got == whole => Ok(()),
        got => Err(format!("delivered {how} it is {got:?}, and whole {whole:?}")),
    };
    same("byte by byte", Reply::read(format, bytes.chunks(1)))?;
    let crlf =
        String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
    same("with CRLF", Reply::read(format, [crlf.as_slice()]))?;
    same("with CRLF byte by byte", Reply::read(format, crlf.chunks(1)))?;
    for _ in 0..SPLITS {
        same("at random splits", Reply::read(format, split(random, bytes)))?;
    }
    let cuts = event_ends(bytes);
    let events = cuts.len();
    let random: Vec<usize> = (0..SPLITS).map(|_| random.below(bytes.len() + 1)).collect();
    let (first, last) = terminals(format, bytes).unwrap_or((usize::MAX, usize::MAX));
    for cut in cuts.into_iter().chain(random) {
        check_cut(format, &whole, &bytes[..cut], cut >= first, cut >= last)?;
    }
    Ok(format!(
        "{events} events, {:?}",
        whole.end.as_ref().map_or_else(|e| format!("{:?}", e.kind), |d| format!("{:?}", d.0))
    ))
}

/// Checks a truncated stream. It is a failed reply, unless it was complete. Some streams continue
/// after completion, so a complete turn may lack content until `last`.
fn check_cut(
    format: &Format,
    whole: &Reply,
    cut: &[u8],
    complete: bool,
    last: bool,
) -> Result<(), String> {
    let reply = Reply::read(format, [cut])?;
    let at = cut.len();
    match &reply.end {
        Err(error) if complete || error.kind.is_retryable() || whole.end.is_err() => Ok(()),
        Err(error) => Err(format!("cut at byte {at} it fails for good: {error}")),
        Ok(_) if !complete => Err(format!("cut at byte {at} it is a finished turn")),
        Ok(_)
            if whole.end.is_ok()
                && !(if last { reply.says(whole) } else { reply.begins(whole) }) =>
        {
            Err(format!("cut at byte {at} it says {reply:?}, and whole {whole:?}"))
        }
        Ok(_) => Ok(()),
    }
}

/// Returns the end of each event, except the last.
fn event_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let (mut at, mut was_blank) = (0, true);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        let blank = line.trim_ascii().is_empty();
        if blank && !was_blank {
            ends.push(at);
        }
        was_blank = blank;
    }
    ends.pop_if(|end| *end == bytes.len());
    ends
}

/// Returns the ends of the first and the last payload that complete the reply.
fn terminals(format: &Format, bytes: &[u8]) -> Option<(usize, usize)> {
    let (mut at, mut ends) = (0, Vec::new());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        if text.strip_prefix("data:").is_some_and(|payload| (format.is_terminal)(payload.trim())) {
            ends.push(at + line.trim_ascii_end().len());
        }
        at += line.len();
    }
    Some((*ends.first()?, *ends.last()?))
}

/// Returns chunks of random lengths, many of them short.
fn split<'a>(random: &mut Random, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        let max = [2, 7, 60, 1500][random.below(4)];
        let (chunk, rest) = bytes.split_at((1 + random.below(max)).min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}
