// Loads CodeMirror when an editor is shown first. A page without an editor does not fetch it.

let loading = null;

function sheet(name) {
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = `vendor/${name}`;
  // Before the page's own sheets, which give it the page's colours.
  document.head.prepend(link);
}

function script(name) {
  return new Promise((loaded, failed) => {
    const element = document.createElement('script');
    element.src = `vendor/${name}`;
    element.onload = loaded;
    element.onerror = () => failed(new Error(name));
    document.head.append(element);
  });
}

async function load() {
  sheet('codemirror.css');
  sheet('show-hint.css');
  await script('codemirror.js');
  await Promise.all([script('yaml.js'), script('show-hint.js')]);
  return globalThis.CodeMirror;
}

/// Gives the library, or null if it cannot be loaded: the editor is a plain text field then.
export function codeMirror() {
  loading ??= load().catch((error) => {
    console.warn(`the editor cannot be loaded: ${error.message}`);
    return null;
  });
  return loading;
}
