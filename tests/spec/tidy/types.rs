//! What the types of a crate are, as far as its source says: fields, methods, results.

use std::collections::{HashMap, HashSet};

use syn::{FnArg, GenericArgument, GenericParam, Item, PathArguments, ReturnType, TypeParamBound};

use super::code::{Code, Target, is_for_tests};

/// A type without its references and smart pointers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ty {
    /// `module::Name` for a type of the crate, the last segment for any other.
    pub(super) key: String,
    pub(super) ours: bool,
    pub(super) args: Vec<Ty>,
}

/// A method, and where it is defined.
pub(super) struct Method {
    pub(super) file: usize,
    pub(super) output: Option<Ty>,
}

/// The declarations of a crate.
#[derive(Default)]
pub(super) struct Types {
    pub(super) fields: HashMap<(String, String), Ty>,
    /// By type (or trait) and name; a trait's methods are defined where the trait is.
    pub(super) methods: HashMap<(String, String), Method>,
    pub(super) traits: HashSet<String>,
    pub(super) functions: HashMap<(usize, String), Ty>,
    aliases: HashMap<String, Ty>,
    derefs: HashMap<String, Ty>,
}

/// The type parameters in scope, as their bounds, and what `Self` is.
#[derive(Default, Clone)]
pub(super) struct Scope {
    pub(super) generics: HashMap<String, Option<Ty>>,
    pub(super) own: Option<Ty>,
}

const POINTERS: [&str; 7] = ["Box", "Arc", "Rc", "Pin", "Cow", "Ref", "RefMut"];

impl Types {
    pub(super) fn of(code: &Code) -> Types {
        let mut types = Types::default();
        // Aliases first: the others may be written with them.
        for (module, items) in code.items.iter().enumerate() {
            for item in items {
                if let Item::Type(item) = item
                    && let Some(ty) = types.ty(code, module, &Scope::default(), &item.ty)
                {
                    types.aliases.insert(key(code, module, &item.ident.to_string()), ty);
                }
            }
        }
        for (module, items) in code.items.iter().enumerate() {
            items.iter().for_each(|item| types.item(code, module, item));
        }
        types
    }

    fn item(&mut self, code: &Code, module: usize, item: &Item) {
        match item {
            Item::Struct(item) => {
                let own = key(code, module, &item.ident.to_string());
                let mut scope = Scope::default();
                self.generics(code, module, &item.generics, &mut scope);
                for (index, field) in item.fields.iter().enumerate() {
                    let name = field.ident.as_ref().map_or(index.to_string(), ToString::to_string);
                    if let Some(ty) = self.ty(code, module, &scope, &field.ty) {
                        self.fields.insert((own.clone(), name), ty);
                    }
                }
            }
            Item::Fn(item) => {
                let mut scope = Scope::default();
                self.generics(code, module, &item.sig.generics, &mut scope);
                if let Some(ty) = self.output(code, module, &scope, &item.sig.output) {
                    self.functions.insert((module, item.sig.ident.to_string()), ty);
                }
            }
            Item::Trait(item) => {
                let own = key(code, module, &item.ident.to_string());
                let scope = Scope { own: Some(ours(own.clone())), ..Scope::default() };
                for method in &item.items {
                    let syn::TraitItem::Fn(method) = method else { continue };
                    self.method(code, module, &scope, &own, &method.sig);
                }
                self.traits.insert(own);
            }
            Item::Impl(item) => {
                let scope = self.scope(code, module, item);
                let Some(own) = &scope.own else { return };
                for inner in &item.items {
                    match inner {
                        syn::ImplItem::Fn(method)
                            if item.trait_.is_none() && !is_for_tests(&method.attrs) =>
                        {
                            self.method(code, module, &scope, &own.key.clone(), &method.sig);
                        }
                        syn::ImplItem::Type(target) if target.ident == "Target" => {
                            if let Some(ty) = self.ty(code, module, &scope, &target.ty) {
                                self.derefs.insert(own.key.clone(), ty);
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn method(
        &mut self,
        code: &Code,
        module: usize,
        scope: &Scope,
        own: &str,
        signature: &syn::Signature,
    ) {
        let mut scope = scope.clone();
        self.generics(code, module, &signature.generics, &mut scope);
        let output = self.output(code, module, &scope, &signature.output);
        let file = code.modules[module].file;
        let name = signature.ident.to_string();
        self.methods.insert((own.to_owned(), name), Method { file, output });
    }

    /// The scope inside an `impl` block.
    pub(super) fn scope(&self, code: &Code, module: usize, item: &syn::ItemImpl) -> Scope {
        let mut scope = Scope::default();
        self.generics(code, module, &item.generics, &mut scope);
        scope.own = self.ty(code, module, &scope, &item.self_ty);
        scope
    }

    /// Adds type parameters, each as the first of its bounds that is a trait of the crate.
    pub(super) fn generics(
        &self,
        code: &Code,
        module: usize,
        generics: &syn::Generics,
        scope: &mut Scope,
    ) {
        for parameter in &generics.params {
            if let GenericParam::Type(parameter) = parameter {
                let bound = self.bound(code, module, scope, parameter.bounds.iter());
                scope.generics.insert(parameter.ident.to_string(), bound);
            }
        }
    }

    fn bound<'a>(
        &self,
        code: &Code,
        module: usize,
        scope: &Scope,
        bounds: impl Iterator<Item = &'a TypeParamBound>,
    ) -> Option<Ty> {
        let mut bounds = bounds.filter_map(|bound| match bound {
            TypeParamBound::Trait(bound) => self.path(code, module, scope, &bound.path),
            _ => None,
        });
        bounds.find(|ty| ty.ours)
    }

    pub(super) fn output(
        &self,
        code: &Code,
        module: usize,
        scope: &Scope,
        output: &ReturnType,
    ) -> Option<Ty> {
        match output {
            ReturnType::Type(_, ty) => self.ty(code, module, scope, ty),
            ReturnType::Default => None,
        }
    }

    /// The parameters of a function by name.
    pub(super) fn parameters(
        &self,
        code: &Code,
        module: usize,
        scope: &Scope,
        signature: &syn::Signature,
    ) -> Vec<(syn::Pat, Option<Ty>)> {
        let typed = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(input) => Some(input),
            FnArg::Receiver(_) => None,
        });
        typed.map(|input| ((*input.pat).clone(), self.ty(code, module, scope, &input.ty))).collect()
    }

    pub(super) fn ty(
        &self,
        code: &Code,
        module: usize,
        scope: &Scope,
        ty: &syn::Type,
    ) -> Option<Ty> {
        match ty {
            syn::Type::Reference(ty) => self.ty(code, module, scope, &ty.elem),
            syn::Type::Paren(ty) => self.ty(code, module, scope, &ty.elem),
            syn::Type::Slice(ty) => Some(Ty {
                key: "Vec".to_owned(),
                ours: false,
                args: self.ty(code, module, scope, &ty.elem).into_iter().collect(),
            }),
            syn::Type::TraitObject(ty) => self.bound(code, module, scope, ty.bounds.iter()),
            syn::Type::ImplTrait(ty) => self.bound(code, module, scope, ty.bounds.iter()),
            syn::Type::Path(ty) if ty.qself.is_none() => self.path(code, module, scope, &ty.path),
            _ => None,
        }
    }

    pub(super) fn path(
        &self,
        code: &Code,
        module: usize,
        scope: &Scope,
        path: &syn::Path,
    ) -> Option<Ty> {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if names == ["Self"] {
            return scope.own.clone();
        }
        if names[0] == "Self" {
            return None;
        }
        if let [name] = names.as_slice()
            && let Some(bound) = scope.generics.get(name)
        {
            return bound.clone();
        }
        let last = path.segments.last()?;
        let mut args = Vec::new();
        if let PathArguments::AngleBracketed(list) = &last.arguments {
            for argument in &list.args {
                if let GenericArgument::Type(ty) = argument {
                    let unknown = || Ty { key: "?".to_owned(), ours: false, args: Vec::new() };
                    args.push(self.ty(code, module, scope, ty).unwrap_or_else(unknown));
                }
            }
        }
        match code.resolve(module, &names) {
            Some(Target::Item(found, name, rest)) if rest.is_empty() => {
                let key = key(code, found, &name);
                if let Some(alias) = self.aliases.get(&key) {
                    return Some(alias.clone());
                }
                Some(Ty { key, ours: true, args })
            }
            Some(_) => None,
            None => {
                let name = last.ident.to_string();
                if POINTERS.contains(&name.as_str()) {
                    return args.into_iter().next_back().filter(Ty::is_known);
                }
                Some(Ty { key: name, ours: false, args })
            }
        }
    }

    /// The method of a type of the crate: its own, or a method of a trait of the crate.
    pub(super) fn find(&self, ty: &Ty, name: &str) -> Option<&Method> {
        let mut ty = ty;
        for _ in 0..4 {
            if let Some(method) = self.methods.get(&(ty.key.clone(), name.to_owned())) {
                return Some(method);
            }
            match self.derefs.get(&ty.key) {
                Some(target) => ty = target,
                None => break,
            }
        }
        let mut traits = self.traits.iter().map(|own| (own.clone(), name.to_owned()));
        traits.find_map(|key| self.methods.get(&key))
    }

    pub(super) fn method_names(&self) -> HashSet<String> {
        self.methods.keys().map(|(_, name)| name.clone()).collect()
    }

    /// Every file that defines a method of that name.
    pub(super) fn owners(&self, name: &str) -> HashSet<usize> {
        let named = self.methods.iter().filter(|((_, method), _)| method == name);
        named.map(|(_, method)| method.file).collect()
    }
}

impl Ty {
    pub(super) fn is_known(&self) -> bool {
        self.key != "?"
    }

    /// The type inside an `Option`, a `Result` or a boxed future; the type itself otherwise.
    pub(super) fn peeled(self) -> Option<Ty> {
        match self.key.as_str() {
            "Option" | "Result" | "BoxFuture" if !self.ours => {
                self.args.into_iter().next().filter(Ty::is_known)
            }
            _ => Some(self),
        }
    }
}

pub(super) fn key(code: &Code, module: usize, name: &str) -> String {
    format!("{}::{name}", code.modules[module].path)
}

fn ours(key: String) -> Ty {
    Ty { key, ours: true, args: Vec::new() }
}
