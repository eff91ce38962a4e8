cp -rL testdata/checkpoint '<b>&folder'
checkpoint_inspect '<b>&folder' --html page.html >/dev/null
grep '^<title>' page.html
grep -c '<svg' page.html
grep -o '<h2>[^<]*' page.html
grep -E -i -c 'http|<script|<link|@import|url\(|<b>&' page.html
ls
