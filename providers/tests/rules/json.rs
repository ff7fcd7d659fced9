//! JSON without duplicate fields. If a field appears twice, it is undefined which one a server
//! uses.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Returns the value if it is JSON without duplicate fields.
pub(super) fn without_doubles(bytes: &[u8]) -> Result<Value, String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value =
        Single.deserialize(&mut json).map_err(|why| format!("is not as it should be: {why}"))?;
    json.end().map_err(|why| format!("continues after its end: {why}"))?;
    Ok(value)
}

struct Single;

impl<'de> DeserializeSeed<'de> for Single {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Single {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Single)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(Single)?;
            if object.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("the field `{name}` is there twice")));
            }
        }
        Ok(object.into())
    }
}

#[test]
fn a_field_that_is_there_twice_is_refused() {
    let good = br#"{"a":[1,{"b":null,"c":1.5}],"d":"\u00e4","e":true,"f":-1}"#;
    assert_eq!(without_doubles(good), Ok(serde_json::from_slice(good).unwrap()));
    for bad in [r#"{"a":1,"a":1}"#, r#"[{"a":{"b":1,"b":2}}]"#, "{}{}", "{", r#"{"a":"\ud800"}"#] {
        assert!(without_doubles(bad.as_bytes()).is_err(), "{bad}");
    }
}
