//! Lists that may name a thing more than once.

/// Keeps the first of the items whose keys are equal. Lists are as long as a statement's clause, so each key is compared with those before it.
pub(crate) fn drop_duplicates<T, K: PartialEq + Clone>(items: &mut Vec<T>, key: impl Fn(&T) -> &K) {
    let mut known: Vec<K> = Vec::with_capacity(items.len());
    items.retain(|item| {
        let key = key(item);
        let is_new = !known.contains(key);
        if is_new {
            known.push(key.clone());
        }
        is_new
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_keys_stays_in_its_place() {
        let mut items = vec![(2, 'a'), (1, 'b'), (2, 'c'), (3, 'd'), (1, 'e')];
        drop_duplicates(&mut items, |(key, _)| key);
        assert_eq!(items, [(2, 'a'), (1, 'b'), (3, 'd')]);
    }
}
