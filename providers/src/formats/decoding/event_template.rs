//! Events that differ in only one value, like most deltas of a reply. The text around the value is
//! parsed once.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The maximum number of templates without a match. If all events of a server differ, learning more
/// is useless.
const MAX_TRIES: u32 = 4;

/// The text before and after the only value in which events differ.
///
/// An event with the same text around another value has the same other fields, so only the value is
/// parsed. That saves most of the work: in a chunk of 300 bytes, about 20 are new.
#[derive(Debug, Default)]
pub(crate) struct EventTemplate {
    before: String,
    after: String,
    tries: u32,
}

impl EventTemplate {
    /// Returns the value in `event`, if the text around it matches the template.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&mut self, event: &'a str) -> Option<T> {
        self.read_with(event, |value| serde_json::from_str(value).ok())
    }

    /// Returns the result of `parse` on the text of the value in `event`, if the text around it
    /// matches the template. The value need not be JSON.
    pub(crate) fn read_with<'a, T>(
        &mut self,
        event: &'a str,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Option<T> {
        if self.before.is_empty() {
            return None;
        }
        let value = event.strip_prefix(self.before.as_str())?.strip_suffix(self.after.as_str())?;
        let value = parse(value)?;
        self.tries = 0;
        Some(value)
    }

    /// Learns the text around `value`, which must be the only relevant part of `event`.
    pub(crate) fn learn(&mut self, event: &str, value: &RawValue) {
        if self.tries == MAX_TRIES {
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

    fn learn(frame: &mut EventTemplate, event: &str) {
        let Event { v } = serde_json::from_str(event).unwrap();
        frame.learn(event, v);
    }

    #[test]
    fn an_event_that_differs_in_the_value_only_is_read_by_its_value() {
        let mut frame = EventTemplate::default();
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
    fn the_template_is_empty_before_the_first_event_and_for_a_foreign_value() {
        let mut frame = EventTemplate::default();
        assert_eq!(frame.read::<u8>("1"), None);
        let foreign = RawValue::from_string("1".into()).unwrap();
        frame.learn(r#"{"v":1}"#, &foreign);
        assert_eq!(frame.read::<u8>(r#"{"v":1}"#), None);
    }

    #[test]
    fn a_server_whose_events_all_differ_is_given_up() {
        let mut frame = EventTemplate::default();
        for id in 0..9 {
            learn(&mut frame, &format!(r#"{{"id":{id},"v":1}}"#));
        }
        assert_eq!(frame.before, r#"{"id":3,"v":"#);
        assert_eq!(frame.read::<u8>(r#"{"id":3,"v":2}"#), Some(2));
        learn(&mut frame, r#"{"id":10,"v":1}"#);
        assert_eq!(frame.before, r#"{"id":10,"v":"#, "one that fits is worth going on");
    }
}
