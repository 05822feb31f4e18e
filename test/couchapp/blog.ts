/**
 * A small application that lives in a database: a blog with posts and comments. It is served through its rewrite rules
 * alone, as such applications are: pages by shows and lists, forms by update functions, files as attachments.
 */

export const STYLE = 'body { font: 1em/1.4 serif }\n'

export const BLOG = {
  language: 'javascript',
  title: 'The blog of the house',
  rewrites: [
    { from: '', to: '_list/posts/recent', query: { descending: true, limit: 10, include_docs: true } },
    { from: 'feed', to: '_list/posts/recent', query: { descending: true, format: 'atom', include_docs: true } },
    { from: 'posts/:id', to: '_show/post/:id', method: 'GET' },
    {
      from: 'posts/:id/comments',
      to: '_list/comments/comments',
      method: 'GET',
      query: { startkey: [':id'], endkey: [':id', {}] },
    },
    { from: 'posts/:id/comments', to: '_update/comment/:id', method: 'POST' },
    { from: 'since/:year', to: '_view/recent', query: { startkey: [':year'] }, formats: { year: 'int' } },
    { from: 'write/:id', to: '_update/post/:id', method: 'PUT' },
    { from: 'static/*', to: '*' },
    { from: 'api/*', to: '../../*' },
  ],
  lib: {
    html: `exports.escape = function (text) {
      return String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;');
    };
    exports.page = function (title, body) {
      var escape = exports.escape;
      return '<!doctype html><link rel=stylesheet href=static/css/style.css><title>' + escape(title) + '</title>' + body;
    };`,
  },
  views: {
    lib: { dates: 'exports.year = function (date) { return Number(date.slice(0, 4)) };' },
    recent: {
      map: `function (doc) {
        var dates = require('views/lib/dates');
        if (doc.type === 'post') emit([dates.year(doc.date), doc.date], doc.title);
      }`,
    },
    comments: {
      map: "function (doc) { if (doc.type === 'comment') emit([doc.post, doc.at], { by: doc.by, text: doc.text }) }",
    },
  },
  shows: {
    post: `function (doc, req) {
      var html = require('lib/html');
      if (!doc) return { code: 404, body: html.page('Not here', '<p>There is no ' + html.escape(req.id)) };
      provides('html', function () {
        return html.page(doc.title + ' - ' + this.title, '<h1>' + html.escape(doc.title) + '</h1>' + html.escape(doc.text));
      });
      provides('json', function () {
        return { json: { title: doc.title, text: doc.text } };
      });
    }`,
  },
  lists: {
    posts: `function (head, req) {
      var html = require('lib/html');
      provides('html', function () {
        var row;
        send(html.page(this.title, '<ul>'));
        while (row = getRow()) send('<li><a href=posts/' + row.id + '>' + html.escape(row.value) + '</a>');
        return '</ul>';
      });
      provides('atom', function () {
        var row;
        send('<feed>');
        while (row = getRow()) send('<entry><title>' + html.escape(row.doc.title) + '</title></entry>');
        return '</feed>';
      });
    }`,
    comments: `function () {
      var row, all = [];
      start({ headers: { 'Content-Type': 'application/json' } });
      while (row = getRow()) all.push(row.value);
      return JSON.stringify(all);
    }`,
  },
  updates: {
    post: `function (doc, req) {
      var sent = JSON.parse(req.body);
      var post = doc || { _id: req.id, type: 'post', by: req.userCtx.name };
      post.title = sent.title;
      post.text = sent.text;
      post.date = sent.date;
      return [post, { json: { ok: true, id: post._id } }];
    }`,
    comment: `function (doc, req) {
      if (!doc) return [null, { code: 404, body: 'There is no such post.' }];
      var comment = { _id: req.uuid, type: 'comment', post: doc._id, by: req.userCtx.name, text: req.form.text };
      comment.at = Number(req.form.at);
      return [comment, { code: 303, headers: { Location: '../' + doc._id } }];
    }`,
  },
  validate_doc_update: `function (newDoc, oldDoc, userCtx) {
    if (userCtx.roles.indexOf('_admin') >= 0) return;
    if (!userCtx.name) throw { unauthorized: 'Please log in.' };
    if ((oldDoc || newDoc).by !== userCtx.name) throw { forbidden: 'That is not yours.' };
    if (!newDoc._deleted && newDoc.type === 'comment' && !newDoc.text) throw { forbidden: 'A comment has a text.' };
  }`,
}
