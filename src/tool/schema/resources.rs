//! Where references of a schema lead: parts with a URI of their own, and anchors.

use std::borrow::Cow;
use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::keywords::Keywords;
use super::program::Id;
use super::uri;

/// Maximum length of the URI of a part, of a reference and of an anchor, in bytes.
const MAX_URI: usize = 2_048;
/// Prefixes of the URIs of metaschemas.
const METASCHEMAS: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];
/// The name of `$recursiveAnchor` among the dynamic anchors.
const RECURSIVE: &str = "";

/// The drafts that differ in what is compiled here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Four,
    SixOrSeven,
    Nineteen,
    Latest,
}

impl Draft {
    /// Returns the draft of a value of `$schema`. Custom metaschemas extend the latest.
    fn named(schema: &str) -> Draft {
        let names = [
            ("draft-04", Draft::Four),
            ("draft-06", Draft::SixOrSeven),
            ("draft-07", Draft::SixOrSeven),
            ("draft/2019-09", Draft::Nineteen),
        ];
        let name = METASCHEMAS.iter().find_map(|start| schema.strip_prefix(start));
        let named =
            names.into_iter().find(|(start, _)| name.is_some_and(|it| it.starts_with(start)));
        named.map_or(Draft::Latest, |(_, draft)| draft)
    }
}

/// A part of the document with a URI of its own, which references in it are relative to.
struct Resource<'s> {
    uri: String,
    root: &'s Value,
    draft: Draft,
    /// Subschemas by anchor, and whether the anchor is dynamic.
    anchors: HashMap<&'s str, (&'s Value, bool)>,
    /// `true` for the `$recursiveAnchor` of Draft 2019-09.
    is_recursive: bool,
}

/// A reference.
pub(super) struct Reference<'s> {
    pub(super) text: &'s str,
    /// Its URI, or `None` within its own resource.
    uri: Option<String>,
    fragment: Cow<'s, str>,
    is_dynamic: bool,
}

impl Reference<'_> {
    /// Returns whether it leads to a whole metaschema, unless it leads to a part of the document.
    pub(super) fn is_to_metaschema(&self) -> bool {
        let is_named = METASCHEMAS.iter().any(|start| self.text.starts_with(start));
        is_named && self.fragment.is_empty()
    }
}

/// Where a reference leads.
pub(super) struct Target<'s> {
    pub(super) schema: &'s Value,
    pub(super) resource: usize,
    /// The name of the anchor, if the outermost one of this name decides.
    pub(super) dynamic: Option<String>,
}

/// The resources of a document. The document itself is first.
#[derive(Default)]
pub(super) struct Resources<'s> {
    list: Vec<Resource<'s>>,
    by_uri: HashMap<String, usize>,
}

impl<'s> Resources<'s> {
    /// Returns the resources of a document before anything in it is registered.
    pub(super) fn of(root: &'s Value) -> Self {
        let mut resources = Resources::default();
        resources.add(String::new(), root, Draft::Latest);
        resources
    }

    pub(super) fn draft(&self, resource: usize) -> Draft {
        self.list[resource].draft
    }

    fn add(&mut self, uri: String, root: &'s Value, draft: Draft) -> usize {
        let schema = root.get("$schema").and_then(Value::as_str);
        let draft = schema.map_or(draft, Draft::named);
        let is_recursive = root.get("$recursiveAnchor") == Some(&Value::Bool(true));
        let anchors = HashMap::new();
        self.by_uri.insert(uri.clone(), self.list.len());
        self.list.push(Resource { uri, root, draft, anchors, is_recursive });
        self.list.len() - 1
    }

    /// Records the names under which references find a subschema. Returns its resource.
    pub(super) fn register(
        &mut self,
        schema: &'s Value,
        fields: &'s Map<String, Value>,
        within: usize,
    ) -> Result<usize, String> {
        let words = Keywords(fields);
        let draft = self.list[within].draft;
        let mut resource = within;
        let is_root = std::ptr::eq(self.list[within].root, schema);
        if !(draft < Draft::Nineteen && words.get("$ref").is_some()) {
            let id = match draft {
                Draft::Four => fields.get("id").and_then(Value::as_str),
                _ => words.text("$id")?,
            };
            if let Some(id) = id {
                let (id, anchor) = id.split_once('#').unwrap_or((id, ""));
                if !id.is_empty() {
                    let uri = uri::resolve(&self.list[within].uri, id);
                    check_length("$id", &uri)?;
                    if is_root {
                        self.by_uri.insert(uri.clone(), within);
                        self.list[within].uri = uri;
                    } else {
                        resource = self.add(uri, schema, draft);
                    }
                }
                if !anchor.is_empty() {
                    self.list[resource].anchors.insert(anchor, (schema, false));
                }
            }
        }
        for (word, is_dynamic) in [("$anchor", false), ("$dynamicAnchor", true)] {
            if let Some(anchor) = words.text(word)? {
                check_length(word, anchor)?;
                self.list[resource].anchors.insert(anchor, (schema, is_dynamic));
            }
        }
        Ok(resource)
    }

    /// Reads a reference of a subschema in a resource.
    pub(super) fn reference(
        &self,
        word: &str,
        text: &'s str,
        within: usize,
    ) -> Result<Reference<'s>, String> {
        check_length(word, text)?;
        let (base, fragment) = text.split_once('#').unwrap_or((text, ""));
        let uri = (!base.is_empty()).then(|| uri::resolve(&self.list[within].uri, base));
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        Ok(Reference { text, uri, fragment, is_dynamic: word != "$ref" })
    }

    /// Returns the target of a reference in a resource, or `None` while it is not known.
    /// `resource_of` returns the resource of a known subschema.
    pub(super) fn target(
        &self,
        reference: &Reference<'s>,
        within: usize,
        resource_of: impl Fn(&Value) -> Option<usize>,
    ) -> Option<Target<'s>> {
        let uri = reference.uri.as_ref();
        let number = uri.map_or(Some(within), |uri| self.by_uri.get(uri).copied())?;
        let resource = &self.list[number];
        let fragment = &*reference.fragment;
        let target = |schema, resource, is_dynamic: bool, name: &str| {
            let dynamic = (reference.is_dynamic && is_dynamic).then(|| name.to_owned());
            Target { schema, resource, dynamic }
        };
        if fragment.is_empty() {
            return Some(target(resource.root, number, resource.is_recursive, RECURSIVE));
        }
        if !fragment.starts_with('/') {
            let (schema, is_dynamic) = *resource.anchors.get(fragment)?;
            return Some(target(schema, number, is_dynamic, fragment));
        }
        // A JSON Pointer, which can lead into other resources.
        let (mut value, mut number) = (resource.root, number);
        for part in fragment.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            value = match value {
                Value::Object(fields) => fields.get(&part)?,
                Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
            number = resource_of(value).unwrap_or(number);
        }
        Some(target(value, number, false, ""))
    }

    /// Returns the dynamic anchors of each resource. `id_of` returns the position of a subschema.
    pub(super) fn dynamic_anchors(
        &self,
        id_of: impl Fn(&Value) -> Option<Id>,
    ) -> Vec<HashMap<String, Id>> {
        let of_one = |resource: &Resource<'s>| {
            let anchors = resource.anchors.iter().filter(|(_, (_, is_dynamic))| *is_dynamic);
            let anchors = anchors.map(|(name, (schema, _))| (*name, *schema));
            let root = resource.is_recursive.then_some((RECURSIVE, resource.root));
            let anchors = anchors.chain(root);
            anchors.filter_map(|(name, schema)| Some((name.to_owned(), id_of(schema)?))).collect()
        };
        self.list.iter().map(of_one).collect()
    }
}

fn check_length(word: &str, text: &str) -> Result<(), String> {
    match text.len() {
        ..=MAX_URI => Ok(()),
        _ => Err(format!("`{word}` is longer than {MAX_URI} bytes")),
    }
}
