//! Events that differ in one value only, as most deltas of a reply do: what is around the value is
//! read once.

use serde::Deserialize;
use serde_json::value::RawValue;

/// So many events are learned without one that fits; a server whose events all differ is not worth
/// more.
const TRIES: u32 = 4;

/// The text before and after the value in which events differ.
///
/// An event that has the same text around another value has the same fields with the same values,
/// so it is enough to read the value. That is most of the work: of a chunk of 300 bytes, some 20
/// are new.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    before: String,
    after: String,
    tries: u32,
}

impl Frame {
    /// The value in `event`, if everything around it is as it was in the event that was learned.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&mut self, event: &'a str) -> Option<T> {
        if self.before.is_empty() {
            return None;
        }
        let value = event.strip_prefix(self.before.as_str())?.strip_suffix(self.after.as_str())?;
        let value = serde_json::from_str(value).ok()?;
        self.tries = 0;
        Some(value)
    }

    /// Learns what is around `value`, a part of `event`, which has nothing else to tell.
    pub(crate) fn learn(&mut self, event: &str, value: &RawValue) {
        if self.tries == TRIES {
            return;
        }
        self.tries += 1;
        self.before.clear();
        let at = (value.get().as_ptr() as usize).wrapping_sub(event.as_ptr() as usize);
        let parts = (event.get(..at), event.get(at.wrapping_add(value.get().len())..));
        if let (Some(before), Some(after)) = parts {
            before.clone_into(&mut self.before);
            after.clone_into(&mut self.after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        v: &'a RawValue,
    }

    fn learn(frame: &mut Frame, event: &str) {
        let Event { v } = serde_json::from_str(event).unwrap();
        frame.learn(event, v);
    }

    #[test]
    fn an_event_that_differs_in_the_value_only_is_read_by_its_value() {
        let mut frame = Frame::default();
        learn(&mut frame, r#"{"a":"x","v":[1],"b":null}"#);
        assert_eq!(frame.read::<Vec<u8>>(r#"{"a":"x","v":[2,3],"b":null}"#), Some(vec![2, 3]));
        for other in [
            r#"{"a":"y","v":[2],"b":null}"#,
            r#"{"a":"x","v":[2],"b":1}"#,
            r#"{"a":"x","v":[2],"b":null,"c":1}"#,
            r#"{"a":"x","v":[2],"v":[3],"b":null}"#,
            r#"{"a":"x","v":"2","b":null}"#,
            r#"{"a":"x","v":[1],"b":null"#,
            r#"{"a":"x","v":"#,
        ] {
            assert_eq!(frame.read::<Vec<u8>>(other), None, "{other}");
        }
    }

    #[test]
    fn nothing_is_known_before_the_first_event_or_of_a_value_from_elsewhere() {
        let mut frame = Frame::default();
        assert_eq!(frame.read::<u8>("1"), None);
        let elsewhere = RawValue::from_string("1".into()).unwrap();
        frame.learn(r#"{"v":1}"#, &elsewhere);
        assert_eq!(frame.read::<u8>(r#"{"v":1}"#), None);
    }

    #[test]
    fn a_server_whose_events_all_differ_is_given_up() {
        let mut frame = Frame::default();
        for id in 0..9 {
            learn(&mut frame, &format!(r#"{{"id":{id},"v":1}}"#));
        }
        assert_eq!(frame.before, r#"{"id":3,"v":"#);
        assert_eq!(frame.read::<u8>(r#"{"id":3,"v":2}"#), Some(2));
        learn(&mut frame, r#"{"id":10,"v":1}"#);
        assert_eq!(frame.before, r#"{"id":10,"v":"#, "one that fits is worth going on");
    }
}
