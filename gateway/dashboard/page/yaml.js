// Values as YAML, to be read by people: what is shown side by side in a diff.

const PLAIN = /^[A-Za-z_/$(][\w/.*$()-]*( [\w/.*$()-]+)*$/;
/// Words that YAML would read as something else.
const OTHERWISE = /^(true|false|null|yes|no|on|off|y|n)$/i;

const isEmpty = (value) => Object.keys(value).length === 0;

function scalar(value) {
  if (typeof value === 'string' && PLAIN.test(value) && !OTHERWISE.test(value)) return value;
  return JSON.stringify(value);
}

function lines(value, indent) {
  const blanks = ' '.repeat(indent);
  if (Array.isArray(value)) {
    return value.flatMap((one) => {
      const [first, ...rest] = nested(one) ? lines(one, indent + 2) : [scalar(one)];
      return [`${blanks}- ${first.trimStart()}`, ...rest];
    });
  }
  return Object.entries(value).flatMap(([key, one]) => {
    const name = `${blanks}${scalar(key)}:`;
    return nested(one) ? [name, ...lines(one, indent + 2)] : [`${name} ${scalar(one)}`];
  });
}

const nested = (value) => value !== null && typeof value === 'object' && !isEmpty(value);

/// The lines of a value; of nothing, none.
export function yamlLines(value) {
  if (value === null || value === undefined) return [];
  return nested(value) ? lines(value, 0) : [scalar(value)];
}
