// How results of the search are ranked: as Sphinx does it, but headings that have all words of the question come first.
var Scorer = {
  score: ([, , anchor, description, score]) => (anchor && !description ? score + 20 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Sphinx finds a heading only by a question of at least half its length.
const searchPages = Search._performSearch;
Search._performSearch = (query, terms, ...others) => {
  const { alltitles, titles, docnames, filenames } = Search._index;
  const stemmer = new Stemmer();
  const asked = query.toLowerCase().trim();
  const found = [];
  for (const [title, places] of Object.entries(alltitles)) {
    const heading = title.toLowerCase();
    const words = new Set(splitQuery(heading).map((word) => stemmer.stemWord(word)));
    const phrase = ` ${heading.replace(/[^\p{L}\p{N}]+/gu, " ")} `.includes(` ${asked.replace(/[^\p{L}\p{N}]+/gu, " ")} `);
    if (!phrase && !(terms.size && [...terms].every((term) => words.has(term)))) continue;
    for (const [file, id] of places) {
      const text = titles[file] === title ? title : `${titles[file]} > ${title}`;
      const rank = (phrase ? 1000 : 0) + (heading.endsWith("?") ? 500 : 0) - words.size;
      found.push([docnames[file], text, id === null ? "" : `#${id}`, null, rank, filenames[file], SearchResultKind.title]);
    }
  }
  found.sort((one, other) => one[4] - other[4]); // what is shown first stands last
  const places = new Set(found.map(([name, , anchor]) => name + anchor));
  const rest = searchPages(query, terms, ...others).filter(([name, , anchor]) => !places.has(name + anchor));
  return [...rest, ...found];
};
