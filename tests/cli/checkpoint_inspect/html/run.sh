cp -rL testdata/checkpoint '<b>&folder'
checkpoint_inspect '<b>&folder' --html page.html >/dev/null
grep '^<title>' page.html
grep -c '<svg' page.html
grep -o '<h2>[^<]*' page.html
grep -E -i -c 'http|<script|<link|@import|url\(|<b>&' page.html
ls
grep -o -E '<span class=soft>(most|maximum)' page.html | sort -u
tail -n 3 page.html | sed -E 's/libmeg [0-9.]+, [0-9-]+ [0-9:]+ UTC/libmeg VERSION, DATE/'
